#include "serve/weights/tensor_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/tensor_message.h"
#include "serve/api/fields.h"

namespace trl::serve {

namespace {

namespace form = base::tensor_message;

constexpr size_t kTensors = 1 << 20;
constexpr size_t kRank = 16;

template <class Number>
Number number_at(std::string_view bytes, size_t at) {
  Number value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// Returns the header, whose end and what it is filled up with are checked.
std::string_view header_of(std::string_view bytes) {
  if (bytes.size() < form::kHeaderAt || std::memcmp(bytes.data(), form::kMagic, sizeof form::kMagic) != 0)
    throw Refusal(
        400, fmt::format("body: it does not begin as tensors do, with TRLW; it has {} bytes", bytes.size()));
  const auto version = number_at<uint32_t>(bytes, sizeof form::kMagic);
  if (version != form::kVersion)
    throw Refusal(400, fmt::format("body: its version is {}; send version {}", version, form::kVersion));
  const auto size = number_at<uint64_t>(bytes, form::kSizeAt);
  if (size > form::kHeaderBytes)
    throw Refusal(400,
                  fmt::format("body: its header has {} bytes; send at most {}", size, form::kHeaderBytes));
  if (form::aligned(form::kHeaderAt + size) > bytes.size())
    throw Refusal(400,
                  fmt::format("body: its header has {} bytes, and it ends after {}", size, bytes.size()));
  return bytes.substr(form::kHeaderAt, size);
}

uint64_t read_hash(Fields& fields) {
  const base::Json* const value = fields.find("hash");
  const std::string text = value != nullptr && value->is_string() ? value->get<std::string>() : "";
  uint64_t hash = 0;
  bool good = text.size() == 16;
  for (const char c : text) {
    const bool digit = c >= '0' && c <= '9';
    good = good && (digit || (c >= 'a' && c <= 'f'));
    hash = hash << 4 | static_cast<uint64_t>(digit ? c - '0' : c - 'a' + 10);
  }
  if (!good)
    refuse_value("hash", value == nullptr ? base::Json() : *value,
                 "16 hexadecimal digits, XXH3 of the bytes");
  return hash;
}

std::string read_name(Fields& fields) {
  const std::optional<std::string> name = fields.text("name");
  if (!name || name->empty()) refuse_value("name", nullptr, "the name of a tensor");
  return *name;
}

SentTensor read_tensor(Fields& fields) {
  SentTensor tensor{
      .name = read_name(fields), .dtype = fields.text("dtype").value_or(""), .hash = read_hash(fields)};
  const size_t size = form::number_size(tensor.dtype);
  if (size == 0) refuse_value("dtype", tensor.dtype, "bfloat16, float16 or float32");
  const base::Json* const shape = fields.find("shape");
  std::optional<std::vector<int64_t>> extents = shape_of(shape == nullptr ? base::Json() : *shape);
  if (!extents || extents->size() > kRank)
    refuse_value("shape", shape == nullptr ? base::Json() : *shape, "a list of at most 16 integers >= 0");
  tensor.shape = *std::move(extents);
  uint64_t count = size;
  for (const int64_t extent : tensor.shape)
    if (__builtin_mul_overflow(count, static_cast<uint64_t>(extent), &count))
      refuse_value("shape", *shape, "one of fewer numbers");
  const std::optional<int64_t> bytes = fields.integer("bytes", {0});
  if (!bytes || static_cast<uint64_t>(*bytes) != count)
    refuse_value("bytes", bytes ? base::Json(*bytes) : base::Json(),
                 fmt::format("{}, as {} of shape {} have", count, tensor.dtype, shape_text(tensor.shape)));
  return tensor;
}

// Calls read for each object of a list; refusals name the list and the place in it.
template <class Read>
void each(Fields& fields, std::string_view name, const Read& read) {
  const base::Json* const list = fields.find(name);
  if (list == nullptr) return;
  if (!list->is_array() || list->size() > kTensors) refuse_value(name, "...", "a list of objects");
  for (size_t i = 0; i < list->size(); ++i) {
    const base::Json& one = (*list)[i];
    const std::string place = fmt::format("{}[{}]", name, i);
    if (!one.is_object()) refuse_value(place, one, "an object");
    try {
      Fields inner(one);
      read(inner);
    } catch (const Refusal& refusal) {
      const base::Json known = one.value("name", base::Json());
      throw Refusal(refusal.status,
                    fmt::format("{}{}: {}", place, known.is_string() ? " " + known.get<std::string>() : "",
                                refusal.message),
                    place + "." + refusal.param);
    }
  }
}

void give_bytes(std::vector<SentTensor>& tensors, std::string_view bytes, size_t at) {
  for (SentTensor& tensor : tensors) {
    uint64_t size = form::number_size(tensor.dtype);
    for (const int64_t extent : tensor.shape) size *= static_cast<uint64_t>(extent);
    const size_t left = bytes.size() - at;
    if (size > left || form::aligned(size) > left)
      throw Refusal(400, fmt::format("body: it ends after {} bytes, within {}", bytes.size(), tensor.name));
    tensor.bytes = bytes.substr(at, size);
    at += form::aligned(size);
  }
  if (at != bytes.size())
    throw Refusal(400, fmt::format("body: it has {} bytes, and its tensors end after {}", bytes.size(), at));
}

}  // namespace

std::string hash_text(uint64_t hash) { return fmt::format("{:016x}", hash); }

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::optional<std::vector<int64_t>> shape_of(const base::Json& json) {
  if (!json.is_array()) return std::nullopt;
  std::vector<int64_t> shape;
  for (const base::Json& extent : json) {
    if (!extent.is_number_integer() || extent < 0) return std::nullopt;
    shape.push_back(extent.get<int64_t>());
  }
  return shape;
}

TensorMessage read_message(std::string_view bytes) {
  const std::string header(header_of(bytes));  // a copy: memory that is shared may change
  const base::Json json = parse_body(header);
  Fields fields(json);
  TensorMessage message;
  message.run = fields.text("run").value_or("");
  message.step = fields.integer("step", {0}).value_or(0);
  message.base_version = fields.integer("base_version", {0});
  std::set<std::string, std::less<>> names;
  const auto note = [&](const std::string& name) {
    if (!names.insert(name).second) refuse_value("name", name, "each tensor once");
  };
  each(fields, "tensors", [&](Fields& one) {
    message.tensors.push_back(read_tensor(one));
    note(message.tensors.back().name);
  });
  each(fields, "unchanged", [&](Fields& one) {
    message.unchanged.emplace_back(read_name(one), read_hash(one));
    note(message.unchanged.back().first);
  });
  give_bytes(message.tensors, bytes, form::aligned(form::kHeaderAt + header.size()));
  return message;
}

}  // namespace trl::serve
