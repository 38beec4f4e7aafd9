// Reads and writes the weights of a model directory: model.safetensors, or numbered shards with an index that
// maps each tensor to its shard.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/json/json.h"
#include "base/json/sorted_json.h"
#include "io/safetensors.h"
#include "io/written.h"

namespace trl::io {

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
         path, named);
  if (!base::file_exists(base::join_path(path, named)))
    fail(Status::not_found, "{}: {} is missing, which \"transformers_weights\" of config.json names", path,
         named);
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

int64_t bytes_of(const NamedTensor& tensor) {
  int64_t bytes = static_cast<int64_t>(element_size(tensor.type));
  for (const int64_t extent : tensor.shape) bytes *= extent;
  return bytes;
}

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

Weights Weights::open_directory(const std::string& path, const std::string& named) {
  Weights weights;
  weights.directory_ = path;
  if (!named.empty()) check_named(path, named);
  const bool indexed = named.ends_with(kIndexEnd);
  const std::string single = base::join_path(path, named.empty() ? kSingle : named);
  if (!indexed && base::file_exists(single)) {
    const auto& file = weights.files_.emplace_back(std::make_unique<Safetensors>(single));
    for (const auto& [name, view] : file->tensors()) weights.tensors_.emplace(name, &view);
    return weights;
  }
  const std::string index_path = base::join_path(path, indexed ? named : kIndex);
  if (!base::file_exists(index_path)) {
    fail(Status::not_found, "{}: holds neither {} nor {}{}", path, kSingle, kIndex, other_weights(path));
  }
  const base::SortedJson index = base::read_sorted_json_file(index_path);
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object()) {
    fail(Status::format, "{}: \"weight_map\" is missing or not an object", index_path);
  }
  std::map<std::string, const Safetensors*> shards;
  for (const auto& [name, shard] : map->items()) {
    if (!shard.is_string() || !is_plain_name(shard.get<std::string>())) {
      fail(Status::format, "{}: tensor {}: shard {} is not the name of a file beside the index", index_path,
           name, shard.dump());
    }
    const Safetensors*& file = shards[shard.get<std::string>()];
    if (file == nullptr) {
      const std::string shard_path = base::join_path(path, shard.get<std::string>());
      if (!base::file_exists(shard_path)) {
        fail(Status::not_found, "{}: shard {} is missing", index_path, shard.get<std::string>());
      }
      file = weights.files_.emplace_back(std::make_unique<Safetensors>(shard_path)).get();
    }
    const auto found = file->tensors().find(name);
    if (found == file->tensors().end()) {
      fail(Status::format, "{}: tensor {} is missing; the index says that it is there", file->path(), name);
    }
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
  std::stable_sort(order.begin(), order.end(), [](const NamedTensor* a, const NamedTensor* b) {
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

std::string model_path(const std::string& path) {
  const auto has = [&](std::string_view name) { return base::file_exists(base::join_path(path, name)); };
  return has(kGgufFile) && !has(kSingle) && !has(kIndex) ? base::join_path(path, kGgufFile) : path;
}

bool is_weight_file(std::string_view name) {
  if (name == kSingle || name == kIndex || name == kGgufFile) return true;
  // model-00001-of-00004.safetensors
  constexpr std::string_view kPattern = "model-#####-of-#####.safetensors";
  return name.size() == kPattern.size() &&
         std::equal(name.begin(), name.end(), kPattern.begin(),
                    [](char c, char p) { return p == '#' ? c >= '0' && c <= '9' : c == p; });
}

}  // namespace trl::io
