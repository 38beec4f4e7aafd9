// Reads the weights of a model directory: model.safetensors, or numbered shards with an index that maps each
// tensor to its shard.
#include <map>

#include "base/error.h"
#include "base/json/json.h"
#include "io/safetensors.h"
#include "io/weight_names.h"

namespace trl::io {

namespace {

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

}  // namespace

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

}  // namespace trl::io
