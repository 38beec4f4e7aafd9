// Format: 8 bytes little-endian header length, a JSON header, then the data. Nothing in the header is trusted
// before it is checked against the file's size; tensors must tile the data without hole or overlap.
#include "io/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>

#include "base/error.h"
#include "io/safetensors_header.h"

namespace trl::io {

namespace {

static_assert(std::endian::native == std::endian::little);

using base::SortedJson;

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit
constexpr size_t kStart = 64;  // holds the length of the header, and Git LFS's first words

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

void check_metadata(const SortedJson& metadata, const std::string& path) {
  if (!metadata.is_object())
    fail(Status::format, "{}: __metadata__ is not an object of strings", Place::in(path));
  for (const auto& [key, value] : metadata.items())
    if (!value.is_string())
      fail(Status::format, "{}: __metadata__: value of \"{}\" is not a string", Place::in(path), key);
}

uint64_t unsigned_entry(const SortedJson& value, const std::string& path, const std::string& name,
                        std::string_view what) {
  if (!value.is_number_unsigned()) {
    fail(Status::format, "{}: tensor {}: {} holds something that is not a non-negative integer",
         Place::in(path), name, what);
  }
  return value.get<uint64_t>();
}

const SortedJson& entry(const SortedJson& info, std::string_view key, const std::string& path,
                        const std::string& name) {
  const auto found = info.find(std::string(key));
  if (found == info.end())
    fail(Status::format, "{}: tensor {}: \"{}\" is missing", Place::in(path), name, key);
  return *found;
}

struct Range {
  uint64_t begin, end;
  const std::string* name;
};

TensorView read_entry(const SortedJson& info, const std::string& name, std::string_view data,
                      const std::string& path, Range* range) {
  if (!info.is_object()) fail(Status::format, "{}: tensor {}: entry is not an object", Place::in(path), name);
  const SortedJson& dtype = entry(info, "dtype", path, name);
  const SortedJson& shape = entry(info, "shape", path, name);
  const SortedJson& offsets = entry(info, "data_offsets", path, name);
  if (!dtype.is_string() || !shape.is_array() || !offsets.is_array() || offsets.size() != 2) {
    fail(Status::format, "{}: tensor {}: expected dtype (string), shape (list), data_offsets (two integers)",
         Place::in(path), name);
  }
  TensorView view;
  view.type_name = dtype.get<std::string>();
  const auto type = std::find_if(std::begin(kElementTypes), std::end(kElementTypes),
                                 [&](const TypeName& t) { return t.name == view.type_name; });
  if (type == std::end(kElementTypes))
    fail(Status::unsupported, "{}: tensor {}: dtype \"{}\" is not known", Place::in(path), name,
         view.type_name);
  view.type = type->type;
  uint64_t bytes = type->size;
  for (const SortedJson& item : shape) {
    const uint64_t extent = unsigned_entry(item, path, name, "shape");
    if (extent > static_cast<uint64_t>(INT64_MAX) || __builtin_mul_overflow(bytes, extent, &bytes))
      fail(Status::format, "{}: tensor {}: shape is too large", Place::in(path), name);
    view.shape.push_back(static_cast<int64_t>(extent));
  }
  range->begin = unsigned_entry(offsets[0], path, name, "data_offsets");
  range->end = unsigned_entry(offsets[1], path, name, "data_offsets");
  if (range->begin > range->end || range->end > data.size()) {
    fail(Status::format, "{}: tensor {}: data_offsets [{}, {}] lie outside the {} bytes of data",
         Place::in(path), name, range->begin, range->end, data.size());
  }
  if (range->end - range->begin != bytes) {
    fail(Status::format, "{}: tensor {}: dtype and shape ask for {} bytes, data_offsets give {}",
         Place::in(path), name, bytes, range->end - range->begin);
  }
  view.data = data.data() + range->begin;
  view.bytes = static_cast<size_t>(bytes);
  return view;
}

void check_tiling(std::vector<Range> ranges, uint64_t size, const std::string& path) {
  std::ranges::sort(ranges, [](const Range& a, const Range& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  uint64_t at = 0;
  for (const Range& range : ranges) {
    if (range.begin != at) {
      fail(Status::format, "{}: tensor {}: data begins at {}, {} the end of the tensor before it ({})",
           Place::in(path), *range.name, range.begin, range.begin < at ? "inside" : "past", at);
    }
    at = range.end;
  }
  if (at != size)
    fail(Status::format, "{}: {} bytes of data after the last tensor", Place::in(path), size - at);
}

}  // namespace

Safetensors::Safetensors(const std::string& path, bool late) : file_(path, late) {
  const std::string_view bytes = file_.bytes();
  base::MappedFile::need(bytes.substr(0, kStart));
  base::refuse_lfs_pointer(bytes.substr(0, kStart), path);
  if (bytes.size() < 8)
    fail(Status::format, "{}: {} bytes are too few for a safetensors file", Place::in(path), bytes.size());
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), 8);
  if (header_bytes > kMaxHeaderBytes || header_bytes > bytes.size() - 8) {
    fail(Status::format, "{}: header length {} is larger than the file ({} bytes) or the limit ({})",
         Place::in(path), header_bytes, bytes.size(), kMaxHeaderBytes);
  }
  base::MappedFile::need(bytes.substr(0, 8 + header_bytes));
  const SortedJson header = parse_header(bytes.substr(8, header_bytes), path);
  if (late) base::MappedFile::drop(bytes.substr(0, 8 + header_bytes));
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

size_t element_size(ElementType type) {
  constexpr size_t kSizes[] = {4, 2, 2, 8, 8, 4, 1, 0};
  return kSizes[static_cast<size_t>(type)];
}

std::string_view element_name(ElementType type) {
  constexpr std::string_view kNames[] = {"F32", "F16", "BF16", "F64", "I64", "I32", "U8", "other"};
  return kNames[static_cast<size_t>(type)];
}

std::string_view element_dtype(ElementType type) {
  constexpr std::string_view kNames[] = {"float32", "float16", "bfloat16", "float64",
                                         "int64",   "int32",   "uint8",    "other"};
  return kNames[static_cast<size_t>(type)];
}

}  // namespace trl::io
