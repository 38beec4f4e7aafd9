// Format: 8 bytes little-endian header length, a JSON header, then the data. Nothing in the header is trusted
// before it is checked against the file's size; tensors must tile the data without hole or overlap.
#include "io/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_set>

#include "base/arithmetic/bfloat16.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/json/json.h"

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
    fail(Status::format, "{}: header is nested deeper than {} levels", Place::in(path), kDepth);
  RepeatedKey repeated;
  const bool whole = SortedJson::sax_parse(text.begin(), text.end(), &repeated);
  if (repeated.found())
    fail(Status::format, "{}: header names \"{}\" twice", Place::in(path), *repeated.found());
  SortedJson header = whole ? SortedJson::parse(text.begin(), text.end(), nullptr, false) : SortedJson();
  if (!whole || header.is_discarded()) fail(Status::format, "{}: header is not valid JSON", Place::in(path));
  if (!header.is_object()) fail(Status::format, "{}: header is not a JSON object", Place::in(path));
  return header;
}

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

// Reads and writes the weights of a model directory: model.safetensors, or numbered shards with an index that
// maps each tensor to its shard.
namespace {

using base::Json;

constexpr std::string_view kSingle = "model.safetensors";
constexpr std::string_view kIndex = "model.safetensors.index.json";
constexpr std::string_view kIndexEnd = ".safetensors.index.json";
constexpr size_t kPiece = size_t{16} << 20;  // written between two polls

std::string shard_name(size_t i, size_t count) {
  return fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, count);
}

// Checks a name from an index, which comes from outside: it may only name files of its own directory.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

// Checks "transformers_weights" of config.json.
void check_named(const std::string& path, const std::string& named) {
  if (!base::is_plain_path(named) || !(named.ends_with(".safetensors") || named.ends_with(kIndexEnd)))
    fail(Status::format,
         "{}: \"transformers_weights\": {} is neither a .safetensors file in the directory nor an index of "
         "some",
         Place::in(path), named);
  if (!base::file_exists(base::join_path(path, named)))
    fail(Status::not_found, "{}: {} is missing, which \"transformers_weights\" of config.json names",
         Place::in(path), named);
}

// Lists, for messages, the weight files that exist under other names.
std::string other_weights(const std::string& path) {
  std::vector<std::string> found;
  bool pickled = false;
  for (const std::string& name : base::list_directory(path)) {
    const bool pickle = name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".pth");
    pickled = pickled || pickle;
    if (pickle || name.ends_with(".safetensors") || name.ends_with(".gguf")) found.push_back(name);
  }
  if (found.empty()) return "";
  return fmt::format("; it has {}{}", fmt::join(found, ", "),
                     pickled ? " (pickles are never read: save the model as safetensors)" : "");
}

int64_t bytes_of(const NamedTensor& tensor) { return static_cast<int64_t>(tensor.bytes()); }

std::string header_text(const std::vector<const NamedTensor*>& tensors) {
  Json header = {{"__metadata__", {{"format", "pt"}}}};
  auto& entries = header.get_ref<Json::object_t&>();  // its names are known to differ
  int64_t at = 0;
  for (const NamedTensor* tensor : tensors) {
    const int64_t bytes = bytes_of(*tensor);
    const Json entry = {{"dtype", std::string(element_name(tensor->type))},
                        {"shape", tensor->shape},
                        {"data_offsets", {at, at + bytes}}};
    entries.emplace_back(tensor->name, entry);
    at += bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

size_t NamedTensor::bytes() const {
  size_t bytes = element_size(type);
  for (const int64_t extent : shape) bytes *= static_cast<size_t>(extent);
  return bytes;
}

Weights Weights::in_memory(const std::string& name, std::shared_ptr<const TensorMap> tensors) {
  Weights weights;
  weights.name_ = name;
  for (const auto& [tensor, view] : tensors->views) weights.tensors_.emplace(tensor, &view);
  weights.memory_ = std::move(tensors);
  return weights;
}

Weights Weights::open_directory(const std::string& path, const std::string& named) {
  Weights weights;
  weights.name_ = path;
  if (!named.empty()) check_named(path, named);
  const bool indexed = named.ends_with(kIndexEnd);
  const std::string single = base::join_path(path, named.empty() ? kSingle : named);
  if (!indexed && base::file_exists(single)) {
    const auto& file = weights.files_.emplace_back(std::make_unique<Safetensors>(single, true));
    for (const auto& [name, view] : file->tensors()) weights.tensors_.emplace(name, &view);
    return weights;
  }
  const std::string index_path = base::join_path(path, indexed ? named : kIndex);
  if (!base::file_exists(index_path))
    fail(Status::not_found, "{}: holds neither {} nor {}{}", Place::in(path), kSingle, kIndex,
         other_weights(path));
  const base::SortedJson index = base::read_sorted_json_file(index_path);
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object())
    fail(Status::format, "{}: \"weight_map\" is missing or not an object", Place::in(index_path));
  std::map<std::string, const Safetensors*> shards;
  for (const auto& [name, shard] : map->items()) {
    if (!shard.is_string() || !is_plain_name(shard.get<std::string>())) {
      fail(Status::format, "{}: tensor {}: shard {} is not the name of a file beside the index",
           Place::in(index_path), name, shard.dump());
    }
    const Safetensors*& file = shards[shard.get<std::string>()];
    if (file == nullptr) {
      const std::string shard_path = base::join_path(path, shard.get<std::string>());
      if (!base::file_exists(shard_path))
        fail(Status::not_found, "{}: shard {} is missing", Place::in(index_path), shard.get<std::string>());
      file = weights.files_.emplace_back(std::make_unique<Safetensors>(shard_path, true)).get();
    }
    const auto found = file->tensors().find(name);
    if (found == file->tensors().end())
      fail(Status::format, "{}: tensor {} is missing; the index says that it is there",
           Place::in(file->path()), name);
    weights.tensors_.emplace(name, &found->second);
  }
  return weights;
}

const TensorView* Weights::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second;
}

std::vector<std::string> Weights::names() const {
  std::vector<std::string> names;
  for (const auto& [name, view] : tensors_) names.push_back(name);
  return names;
}

namespace {
void write_made(base::FileWriter& writer, const NamedTensor& tensor, std::vector<char>& buffer,
                Written& written) {
  const auto size = static_cast<int64_t>(element_size(tensor.type));
  const int64_t elements = bytes_of(tensor) / size;
  const int64_t at_once = static_cast<int64_t>(kPiece) / 8;
  for (int64_t first = 0; first < elements; first += at_once) {
    base::poll();
    const int64_t count = std::min(at_once, elements - first);
    buffer.resize(static_cast<size_t>(count * size));
    tensor.fill(first, count, buffer.data());
    writer.write(buffer.data(), buffer.size());
    written.add(buffer.size());
  }
}
}  // namespace

void write_safetensors(base::FileWriter& writer, const std::vector<NamedTensor>& tensors) {
  std::vector<const NamedTensor*> order;
  for (const NamedTensor& tensor : tensors) order.push_back(&tensor);
  std::ranges::stable_sort(order, [](const NamedTensor* a, const NamedTensor* b) {
    return element_size(a->type) > element_size(b->type);
  });
  const std::string header = header_text(order);
  const uint64_t header_bytes = header.size();
  writer.write(&header_bytes, sizeof header_bytes);
  writer.write(header);
  int64_t total = 0;
  for (const NamedTensor* tensor : order) total += bytes_of(*tensor);
  Written written(total);
  std::vector<char> made;
  for (const NamedTensor* tensor : order) {
    if (tensor->data == nullptr && tensor->fill) {
      write_made(writer, *tensor, made, written);
      continue;
    }
    std::string_view bytes(static_cast<const char*>(tensor->data), static_cast<size_t>(bytes_of(*tensor)));
    for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), kPiece))) {
      base::poll();
      writer.write(bytes.substr(0, kPiece));
      written.add(std::min(bytes.size(), kPiece));
    }
  }
}

void write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors) {
  base::FileWriter writer(path);
  write_safetensors(writer, tensors);
  writer.close();
}

std::vector<std::string> write_weights(base::StagedDirectory& directory,
                                       const std::vector<NamedTensor>& tensors, int64_t max_shard_bytes) {
  const auto write = [&](std::string_view name, const std::vector<NamedTensor>& part) {
    directory.write(name, [&](base::FileWriter& writer) { write_safetensors(writer, part); });
  };
  std::vector<std::vector<NamedTensor>> shards(1);
  int64_t total = 0;
  int64_t in_shard = 0;
  for (const NamedTensor& tensor : tensors) {
    const int64_t bytes = bytes_of(tensor);
    if (!shards.back().empty() && in_shard + bytes > max_shard_bytes) {
      shards.emplace_back();
      in_shard = 0;
    }
    shards.back().push_back(tensor);
    in_shard += bytes;
    total += bytes;
  }
  if (shards.size() == 1) {
    write(kSingle, tensors);
    return {std::string(kSingle)};
  }
  std::vector<std::string> names;
  Json map = Json::object();
  for (size_t i = 0; i < shards.size(); ++i) {
    names.push_back(shard_name(i, shards.size()));
    write(names.back(), shards[i]);
    for (const NamedTensor& tensor : shards[i])
      map.get_ref<Json::object_t&>().emplace_back(tensor.name, names.back());
  }
  const Json index = {{"metadata", {{"total_size", total}}}, {"weight_map", map}};
  directory.write(kIndex, index.dump(2) + "\n");
  names.emplace_back(kIndex);
  return names;
}

bool has_safetensors(const base::NamedFiles& directory) {
  return directory.has(kSingle) || directory.has(kIndex);
}

bool is_weight_file(std::string_view name) {
  if (name == kSingle || name == kIndex || name == kGgufFile) return true;
  // model-00001-of-00004.safetensors
  constexpr std::string_view kPattern = "model-#####-of-#####.safetensors";
  return std::ranges::equal(name, kPattern,
                            [](char c, char p) { return p == '#' ? c >= '0' && c <= '9' : c == p; });
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

namespace {

template <typename Stored, typename Convert>
void read_each(const void* data, int64_t first, int64_t count, float* out, const Convert& convert) {
  const char* bytes = static_cast<const char*>(data) + static_cast<size_t>(first) * sizeof(Stored);
  for (int64_t i = 0; i < count; ++i) {
    Stored stored;
    std::memcpy(&stored, bytes + static_cast<size_t>(i) * sizeof(Stored), sizeof(Stored));
    out[i] = convert(stored);
  }
}

}  // namespace

void read_floats(ElementType type, const void* data, int64_t first, int64_t count, float* out) {
  switch (type) {
    case ElementType::f32:
      if (count > 0)
        std::memcpy(out, static_cast<const char*>(data) + static_cast<size_t>(first) * sizeof(float),
                    static_cast<size_t>(count) * sizeof(float));
      return;
    case ElementType::f16:
      return read_each<uint16_t>(data, first, count, out, half_to_float);
    case ElementType::bf16:
      return read_each<base::bf16>(data, first, count, out, [](base::bf16 v) { return base::to_float(v); });
    case ElementType::f64:
      return read_each<double>(data, first, count, out, [](double v) { return static_cast<float>(v); });
    default:
      fail(Status::internal, "read_floats: type {} holds no floating-point numbers", element_name(type));
  }
}

}  // namespace trl::io
