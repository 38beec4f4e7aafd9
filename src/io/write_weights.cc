// Writes the weights of a model directory as one file or as shards with an index.
#include "base/json/json.h"
#include "io/safetensors.h"
#include "io/weight_names.h"

namespace trl::io {

namespace {

std::string shard_name(size_t i, size_t count) {
  return fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, count);
}

}  // namespace

std::vector<std::string> write_weights(base::StagedDirectory& directory,
                                       const std::vector<NamedTensor>& tensors, int64_t max_shard_bytes) {
  const auto write = [&](std::string_view name, const std::vector<NamedTensor>& part) {
    directory.write(name, [&](base::FileWriter& writer) { write_safetensors(writer, part); });
  };
  std::vector<std::vector<NamedTensor>> shards(1);
  int64_t total = 0;
  int64_t in_shard = 0;
  for (const NamedTensor& tensor : tensors) {
    const int64_t bytes = static_cast<int64_t>(tensor.bytes());
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
  base::Json map = base::Json::object();
  for (size_t i = 0; i < shards.size(); ++i) {
    names.push_back(shard_name(i, shards.size()));
    write(names.back(), shards[i]);
    for (const NamedTensor& tensor : shards[i])
      map.get_ref<base::Json::object_t&>().emplace_back(tensor.name, names.back());
  }
  const base::Json index = {{"metadata", {{"total_size", total}}}, {"weight_map", map}};
  directory.write(kIndex, index.dump(2) + "\n");
  names.emplace_back(kIndex);
  return names;
}

}  // namespace trl::io
