// Format: 8 bytes little-endian header length, a JSON header, then the data. Nothing in the header is trusted
// before it is checked against the file's size; tensors must tile the data without hole or overlap.
#include "io/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <tuple>
#include <unordered_set>

#include "base/error.h"
#include "base/json/json_nesting.h"
#include "base/json/sorted_json.h"

namespace trl::io {

namespace {

static_assert(std::endian::native == std::endian::little);

using base::SortedJson;

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit

struct TypeName {
  std::string_view name;
  ElementType type;
  size_t size;
};
constexpr TypeName kElementTypes[] = {
    {"F32", ElementType::f32, 4},       {"F16", ElementType::f16, 2},       {"BF16", ElementType::bf16, 2},
    {"F64", ElementType::f64, 8},       {"I64", ElementType::i64, 8},       {"I32", ElementType::i32, 4},
    {"U8", ElementType::u8, 1},         {"BOOL", ElementType::other, 1},    {"I8", ElementType::other, 1},
    {"F8_E4M3", ElementType::other, 1}, {"F8_E5M2", ElementType::other, 1}, {"I16", ElementType::other, 2},
    {"U16", ElementType::other, 2},     {"U32", ElementType::other, 4},     {"U64", ElementType::other, 8}};

// Finds repeated keys of a JSON text as it is read. A callback of the parser would see them too, but the
// parser then visits all names of the header at the end of each tensor.
class RepeatedKey : public nlohmann::json_sax<SortedJson> {
 public:
  const std::optional<std::string>& found() const { return found_; }

  bool start_object(size_t) override {
    open_.emplace_back();
    return true;
  }
  bool end_object() override {
    open_.pop_back();
    return true;
  }
  bool key(std::string& name) override {
    if (open_.back().insert(name).second) return true;
    found_ = name;
    return false;  // ends the parse
  }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_unsigned(uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(SortedJson::binary_t&) override { return true; }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  std::vector<std::unordered_set<std::string>> open_;  // names of each open object
  std::optional<std::string> found_;
};

// Refuses JSON with a key twice in one object: choosing one of the two would be a guess.
SortedJson parse_header(std::string_view text, const std::string& path) {
  constexpr int kDepth = 4;
  if (base::find_deeper(text, kDepth) != std::string_view::npos)
    fail(Status::format, "{}: header is nested deeper than {} levels", path, kDepth);
  RepeatedKey repeated;
  const bool whole = SortedJson::sax_parse(text.begin(), text.end(), &repeated);
  if (repeated.found()) fail(Status::format, "{}: header names \"{}\" twice", path, *repeated.found());
  SortedJson header = whole ? SortedJson::parse(text.begin(), text.end(), nullptr, false) : SortedJson();
  if (!whole || header.is_discarded()) fail(Status::format, "{}: header is not valid JSON", path);
  if (!header.is_object()) fail(Status::format, "{}: header is not a JSON object", path);
  return header;
}

void check_metadata(const SortedJson& metadata, const std::string& path) {
  if (!metadata.is_object()) fail(Status::format, "{}: __metadata__ is not an object of strings", path);
  for (const auto& [key, value] : metadata.items()) {
    if (!value.is_string())
      fail(Status::format, "{}: __metadata__: value of \"{}\" is not a string", path, key);
  }
}

uint64_t unsigned_entry(const SortedJson& value, const std::string& path, const std::string& name,
                        std::string_view what) {
  if (!value.is_number_unsigned()) {
    fail(Status::format, "{}: tensor {}: {} holds something that is not a non-negative integer", path, name,
         what);
  }
  return value.get<uint64_t>();
}

const SortedJson& entry(const SortedJson& info, std::string_view key, const std::string& path,
                        const std::string& name) {
  const auto found = info.find(std::string(key));
  if (found == info.end()) fail(Status::format, "{}: tensor {}: \"{}\" is missing", path, name, key);
  return *found;
}

struct Range {
  uint64_t begin, end;
  const std::string* name;
};

TensorView read_entry(const SortedJson& info, const std::string& name, std::string_view data,
                      const std::string& path, Range* range) {
  if (!info.is_object()) fail(Status::format, "{}: tensor {}: entry is not an object", path, name);
  const SortedJson& dtype = entry(info, "dtype", path, name);
  const SortedJson& shape = entry(info, "shape", path, name);
  const SortedJson& offsets = entry(info, "data_offsets", path, name);
  if (!dtype.is_string() || !shape.is_array() || !offsets.is_array() || offsets.size() != 2) {
    fail(Status::format, "{}: tensor {}: expected dtype (string), shape (list), data_offsets (two integers)",
         path, name);
  }
  TensorView view;
  view.type_name = dtype.get<std::string>();
  const auto type = std::find_if(std::begin(kElementTypes), std::end(kElementTypes),
                                 [&](const TypeName& t) { return t.name == view.type_name; });
  if (type == std::end(kElementTypes)) {
    fail(Status::unsupported, "{}: tensor {}: dtype \"{}\" is not known", path, name, view.type_name);
  }
  view.type = type->type;
  uint64_t bytes = type->size;
  for (const SortedJson& item : shape) {
    const uint64_t extent = unsigned_entry(item, path, name, "shape");
    if (extent > static_cast<uint64_t>(INT64_MAX) || __builtin_mul_overflow(bytes, extent, &bytes)) {
      fail(Status::format, "{}: tensor {}: shape is too large", path, name);
    }
    view.shape.push_back(static_cast<int64_t>(extent));
  }
  range->begin = unsigned_entry(offsets[0], path, name, "data_offsets");
  range->end = unsigned_entry(offsets[1], path, name, "data_offsets");
  if (range->begin > range->end || range->end > data.size()) {
    fail(Status::format, "{}: tensor {}: data_offsets [{}, {}] lie outside the {} bytes of data", path, name,
         range->begin, range->end, data.size());
  }
  if (range->end - range->begin != bytes) {
    fail(Status::format, "{}: tensor {}: dtype and shape ask for {} bytes, data_offsets give {}", path, name,
         bytes, range->end - range->begin);
  }
  view.data = data.data() + range->begin;
  view.bytes = static_cast<size_t>(bytes);
  return view;
}

void check_tiling(std::vector<Range> ranges, uint64_t size, const std::string& path) {
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  uint64_t at = 0;
  for (const Range& range : ranges) {
    if (range.begin != at) {
      fail(Status::format, "{}: tensor {}: data begins at {}, {} the end of the tensor before it ({})", path,
           *range.name, range.begin, range.begin < at ? "inside" : "past", at);
    }
    at = range.end;
  }
  if (at != size) fail(Status::format, "{}: {} bytes of data after the last tensor", path, size - at);
}

}  // namespace

Safetensors::Safetensors(const std::string& path) : file_(path) {
  const std::string_view bytes = file_.bytes();
  base::refuse_lfs_pointer(bytes, path);
  if (bytes.size() < 8)
    fail(Status::format, "{}: {} bytes are too few for a safetensors file", path, bytes.size());
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), 8);
  if (header_bytes > kMaxHeaderBytes || header_bytes > bytes.size() - 8) {
    fail(Status::format, "{}: header length {} is larger than the file ({} bytes) or the limit ({})", path,
         header_bytes, bytes.size(), kMaxHeaderBytes);
  }
  const SortedJson header = parse_header(bytes.substr(8, header_bytes), path);
  const std::string_view data = bytes.substr(8 + header_bytes);
  std::vector<Range> ranges;
  for (const auto& [name, info] : header.items()) {
    if (name == "__metadata__") {
      check_metadata(info, path);
      continue;
    }
    Range range{};
    TensorView view = read_entry(info, name, data, path, &range);
    const auto added = tensors_.emplace(name, std::move(view)).first;
    range.name = &added->first;
    ranges.push_back(range);
  }
  check_tiling(std::move(ranges), data.size(), path);
}

}  // namespace trl::io
