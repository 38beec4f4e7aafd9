// Layouts after the "Arrow Columnar Format" and "C data interface" specifications. The host's arrays are
// trusted as its memory is, except for the text in them.
#include "io/arrow.h"

#include <cmath>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "base/json/json.h"
#include "base/text/utf8.h"
#include "io/jsonl.h"
#include "io/safetensors.h"

namespace trl::io {

namespace {

const char* name_of(const ArrowSchema& schema) { return schema.name == nullptr ? "" : schema.name; }
bool is_text(std::string_view format) { return format == "u" || format == "U" || format == "vu"; }
bool is_index(std::string_view format) {
  return format.size() == 1 && std::string_view("cCsSiIlL").find(format[0]) != std::string_view::npos;
}

// Throws for a type that write_value does not handle. path: of the column, for messages.
void check_type(const ArrowSchema& schema, const std::string& path, int depth) {
  const std::string_view format = schema.format;
  const auto refuse = [&](std::string_view why) {
    fail(Status::format, "Arrow column '{}': {} ({})", path, why, format);
  };
  if (depth > base::kMaxJsonDepth) refuse("nested too deep");
  const auto check_children = [&](int64_t count) {
    if (count >= 0 && schema.n_children != count) refuse("a type with the wrong number of children");
    for (int64_t i = 0; i < schema.n_children; ++i) {
      const ArrowSchema& child = *schema.children[i];
      check_type(child,
                 path.empty() ? std::string(name_of(child)) : fmt::format("{}.{}", path, name_of(child)),
                 depth + 1);
    }
  };
  if (schema.dictionary != nullptr) {
    if (!is_index(format)) refuse("a dictionary whose indices are not integers");
    return check_type(*schema.dictionary, path, depth + 1);
  }
  if (format == "n" || format == "b" || format == "e" || format == "f" || format == "g" || is_index(format) ||
      is_text(format))
    return;
  if (format == "+l" || format == "+L" || format.starts_with("+w:")) return check_children(1);
  if (format == "+s") return check_children(-1);
  if (format == "+m") {
    check_children(1);
    const ArrowSchema& entries = *schema.children[0];
    const bool text_keys =
        std::string_view(entries.format) == "+s" && entries.n_children == 2 &&
        (is_text(entries.children[0]->format) || entries.children[0]->dictionary != nullptr);
    if (!text_keys) refuse("a map whose keys are not text");
    return;
  }
  refuse("a type that is not read; null, bool, integers, floats, utf8, list, struct, map and dictionary are");
}

template <typename T>
T element(const ArrowArray& array, int64_t buffer, int64_t at) {
  T value;
  std::memcpy(&value, static_cast<const char*>(array.buffers[buffer]) + at * static_cast<int64_t>(sizeof(T)),
              sizeof value);
  return value;
}

bool bit(const void* bits, int64_t at) {
  return (static_cast<const uint8_t*>(bits)[at / 8] >> (at % 8) & 1) != 0;
}

bool is_null(const ArrowSchema& schema, const ArrowArray& array, int64_t at) {
  if (schema.format[0] == 'n') return true;
  return array.null_count != 0 && array.n_buffers > 0 && array.buffers[0] != nullptr &&
         !bit(array.buffers[0], at);
}

int64_t integer(char format, const ArrowArray& array, int64_t at) {
  switch (format) {
    case 'c':
      return element<int8_t>(array, 1, at);
    case 'C':
      return element<uint8_t>(array, 1, at);
    case 's':
      return element<int16_t>(array, 1, at);
    case 'S':
      return element<uint16_t>(array, 1, at);
    case 'i':
      return element<int32_t>(array, 1, at);
    case 'I':
      return element<uint32_t>(array, 1, at);
    default:
      return element<int64_t>(array, 1, at);
  }
}

std::string_view text_at(std::string_view format, const ArrowArray& array, int64_t at) {
  if (format == "vu") {  // 16 bytes: length, then the text or a prefix, the data buffer and the place in it
    const auto* view = static_cast<const char*>(array.buffers[1]) + at * 16;
    int32_t size = 0, buffer = 0, offset = 0;
    std::memcpy(&size, view, 4);
    if (size <= 12) return {view + 4, static_cast<size_t>(size)};
    std::memcpy(&buffer, view + 8, 4);
    std::memcpy(&offset, view + 12, 4);
    return {static_cast<const char*>(array.buffers[2 + buffer]) + offset, static_cast<size_t>(size)};
  }
  const bool large = format == "U";
  const int64_t begin = large ? element<int64_t>(array, 1, at) : element<int32_t>(array, 1, at);
  const int64_t end = large ? element<int64_t>(array, 1, at + 1) : element<int32_t>(array, 1, at + 1);
  if (begin == end) return {};
  return {static_cast<const char*>(array.buffers[2]) + begin, static_cast<size_t>(end - begin)};
}

struct Writer {
  std::string& out;
  int64_t row;  // for messages
  std::string_view column{};

  void value(const ArrowSchema& schema, const ArrowArray& array, int64_t index) {
    const int64_t at = index + array.offset;
    const std::string_view format = schema.format;
    if (is_null(schema, array, at))
      out += "null";
    else if (schema.dictionary != nullptr)
      value(*schema.dictionary, *array.dictionary, integer(format[0], array, at));
    else if (is_text(format))
      text(text_at(format, array, at));
    else if (format == "b")
      out += bit(array.buffers[1], at) ? "true" : "false";
    else if (format == "e")
      number(half_to_float(element<uint16_t>(array, 1, at)));
    else if (format == "f")
      number(element<float>(array, 1, at));
    else if (format == "g")
      number(element<double>(array, 1, at));
    else if (format == "L")
      fmt::format_to(std::back_inserter(out), "{}", element<uint64_t>(array, 1, at));
    else if (format == "+s")
      object(schema, array, at);
    else if (format[0] == '+')
      items(schema, array, at);
    else
      fmt::format_to(std::back_inserter(out), "{}", integer(format[0], array, at));
  }

  void object(const ArrowSchema& schema, const ArrowArray& array, int64_t at) {
    out += '{';
    for (int64_t i = 0; i < schema.n_children; ++i) {
      if (i > 0) out += ',';
      text(name_of(*schema.children[i]));
      out += ':';
      value(*schema.children[i], *array.children[i], at);
    }
    out += '}';
  }

  void items(const ArrowSchema& schema, const ArrowArray& array, int64_t at) {
    const std::string_view format = schema.format;
    int64_t begin = 0, end = 0;
    if (format == "+L") {
      begin = element<int64_t>(array, 1, at);
      end = element<int64_t>(array, 1, at + 1);
    } else if (format.starts_with("+w:")) {
      const int64_t size = std::atoll(schema.format + 3);
      begin = at * size;
      end = begin + size;
    } else {
      begin = element<int32_t>(array, 1, at);
      end = element<int32_t>(array, 1, at + 1);
    }
    const ArrowSchema& child = *schema.children[0];
    const ArrowArray& children = *array.children[0];
    const bool map = format == "+m";
    out += map ? '{' : '[';
    for (int64_t i = begin; i < end; ++i) {
      if (i > begin) out += ',';
      if (map) {
        value(*child.children[0], *children.children[0], i + children.offset);
        out += ':';
        value(*child.children[1], *children.children[1], i + children.offset);
      } else {
        value(child, children, i);
      }
    }
    out += map ? '}' : ']';
  }

  void text(std::string_view bytes) {
    if (base::find_invalid_utf8(bytes) != base::kValid)
      fail(Status::format, "{}: column '{}': invalid UTF-8", Place{"", 0, 0, row - 1, row}, column);
    base::append_json_string(out, bytes);
  }

  void number(double number) {
    if (std::isfinite(number))
      fmt::format_to(std::back_inserter(out), "{}", number);
    else
      out += "null";
  }
};

}  // namespace

ArrowRows::ArrowRows(ArrowArrayStream* stream) : stream_(*stream) {
  stream->release = nullptr;
  try {
    const int code = stream_.get_schema(&stream_, &schema_);
    if (code != 0) fail_stream("schema", code);
    if (std::string_view(schema_.format) != "+s" || schema_.dictionary != nullptr)
      fail(Status::format, "the Arrow stream is not a table: its type is {}, but +s is expected",
           schema_.format);
    check_type(schema_, "", 0);
  } catch (...) {
    if (schema_.release != nullptr) schema_.release(&schema_);
    stream_.release(&stream_);
    throw;
  }
}

ArrowRows::~ArrowRows() {
  release_batch();
  schema_.release(&schema_);
  stream_.release(&stream_);
}

void ArrowRows::release_batch() noexcept {
  if (batch_.release != nullptr) batch_.release(&batch_);
  batch_ = {};
  at_ = 0;
}

void ArrowRows::fail_stream(const char* what, int code) {
  const char* reason = stream_.get_last_error(&stream_);
  throw Error(Status::callback,
              fmt::format("the Arrow stream does not give its {}: {}", what,
                          reason != nullptr ? base::one_line(reason) : "no reason given"),
              {}, code);
}

bool ArrowRows::next(std::string& json) {
  while (at_ == batch_.length) {
    release_batch();
    const int code = stream_.get_next(&stream_, &batch_);
    if (code != 0) {
      batch_ = {};
      fail_stream("rows", code);
    }
    if (batch_.release == nullptr) {
      batch_ = {};
      return false;
    }
  }
  json.clear();
  ++index_;
  Writer writer{json, index_};
  const int64_t at = at_++ + batch_.offset;
  json += '{';
  for (int64_t i = 0; i < schema_.n_children; ++i) {
    if (i > 0) json += ',';
    writer.column = name_of(*schema_.children[i]);
    writer.text(writer.column);
    json += ':';
    writer.value(*schema_.children[i], *batch_.children[i], at);
  }
  json += '}';
  return true;
}

}  // namespace trl::io
