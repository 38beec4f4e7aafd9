#include "checkpoint/save_model.h"

#include <algorithm>
#include <vector>

#include "adapter/config_file.h"
#include "adapter/model_card.h"
#include "adapter/tensors.h"
#include "base/error.h"
#include "checkpoint/directory.h"
#include "checkpoint/gguf_file.h"
#include "checkpoint/memory_weights.h"
#include "checkpoint/saved_config.h"
#include "tensor/threads/parallel.h"

namespace trl::checkpoint {

namespace {

constexpr std::string_view kConfig = "config.json";
constexpr std::string_view kGenerationConfig = "generation_config.json";

std::string json_text(const base::Json& json) { return json.dump(2) + "\n"; }

using Fill = std::function<void(int64_t, int64_t, char*)>;

Fill on_all_threads(Fill fill, size_t element_bytes) {
  constexpr int64_t kPart = 4096;  // elements: a multiple of every block
  return [fill = std::move(fill), size = static_cast<int64_t>(element_bytes)](int64_t first, int64_t count,
                                                                              char* out) {
    tensor::parallel_for((count + kPart - 1) / kPart, 4, [&](int64_t begin, int64_t end) {
      const int64_t from = begin * kPart, to = std::min(end * kPart, count);
      fill(first + from, to - from, out + from * size);
    });
  };
}

std::vector<std::string> write_files(base::StagedDirectory& staged, const DirectoryFiles& all,
                                     int64_t max_shard_bytes) {
  for (const engine::NamedBytes& file : all.files) check_file_name(file.name);
  std::vector<std::string> weights = io::write_weights(staged, all.tensors, max_shard_bytes);
  if (all.check) all.check();
  for (const engine::NamedBytes& file : all.files) staged.write(file.name, file.bytes);
  if (!all.generation_config.empty()) staged.write(kGenerationConfig, json_text(all.generation_config));
  staged.write(kConfig, json_text(all.config));
  return weights;
}

// write: returns the names of the weight files that it wrote.
void save(const std::string& directory, const base::WriteFault* fault,
          const std::function<std::vector<std::string>(base::StagedDirectory&)>& write) {
  refuse_checkpoint(directory);
  refuse_beside_adapter(directory);
  base::StagedDirectory staged(directory, fault);
  const std::vector<std::string> written = write(staged);
  if (base::is_directory(directory)) {
    for (const std::string& name : base::list_directory(directory)) {
      if (io::is_weight_file(name) && std::find(written.begin(), written.end(), name) == written.end())
        staged.replaces(name);
    }
  }
  staged.commit();
}

}  // namespace

void check_file_name(std::string_view name) {
  const bool ours = name == kConfig || name == kGenerationConfig || name == adapter::kConfigFile ||
                    name == adapter::kWeightsFile || io::is_weight_file(name);
  if (!base::is_plain_path(name) || ours)
    fail(Status::invalid_argument, "file \"{}\" cannot be put into a saved model", name);
}

int64_t weight_bytes(model::Model& model) {
  const auto bytes_of = [](const tensor::Parameter& p) {
    return p.count() * static_cast<int64_t>(c10::elementSize(p.dtype()));
  };
  int64_t bytes = has_own_head(model) ? bytes_of(model.head()) : 0;
  for (const tensor::Parameter* p : model.parameters()) bytes += bytes_of(*p);
  for (const model::Model::Carried& carried : model.carried())
    bytes += static_cast<int64_t>(carried.view->bytes);
  return bytes;
}

int64_t gguf_bytes(model::Model& model, std::string_view type) {
  return gguf_bytes(model.config(), gguf_type(type, dtype_name(model)));
}

std::vector<std::string> write_model(base::StagedDirectory& staged, model::Model& model,
                                     std::span<const engine::NamedBytes> files, int64_t max_shard_bytes) {
  std::vector<at::Tensor> host;
  std::vector<io::NamedTensor> tensors = tensors_of(model, host);
  for (io::NamedTensor& tensor : tensors) {
    if (tensor.fill) tensor.fill = on_all_threads(std::move(tensor.fill), io::element_size(tensor.type));
  }
  return write_files(staged,
                     {std::move(tensors), saved_config(model), model.generation_config_json(), files,
                      [&model] { model.check_files(); }},
                     max_shard_bytes);
}

void save_model(const std::string& directory, model::Model& model, std::span<const engine::NamedBytes> files,
                const base::WriteFault* fault, int64_t max_shard_bytes) {
  save(directory, fault,
       [&](base::StagedDirectory& staged) { return write_model(staged, model, files, max_shard_bytes); });
}

std::vector<engine::NamedBytes> with_card(const std::string& directory, const model::Model& model,
                                          const std::string& base, std::span<const engine::NamedBytes> files,
                                          std::span<const std::string_view> tags, bool gguf,
                                          std::string& text) {
  std::vector<engine::NamedBytes> all(files.begin(), files.end());
  const bool given = std::any_of(all.begin(), all.end(), [](const engine::NamedBytes& file) {
    return file.name == adapter::kModelCard;
  });
  if (given || base::file_exists(base::join_path(directory, adapter::kModelCard))) return all;
  std::string whole = directory;
  while (whole.size() > 1 && whole.ends_with('/')) whole.pop_back();
  text = adapter::model_card(
      {base::file_name(whole), adapter::model_name(base), model.config().labels > 0, gguf}, tags);
  all.push_back({adapter::kModelCard, text});
  return all;
}

void save_files(const std::string& directory, const DirectoryFiles& files) {
  save(directory, nullptr,
       [&](base::StagedDirectory& staged) { return write_files(staged, files, io::kMaxShardBytes); });
}

void save_gguf(const std::string& directory, model::Model& model, const GgufFormat& format,
               base::LogSink* log, const base::WriteFault* fault) {
  const MemoryWeights weights(model);
  const model::ModelConfig config = saved_model_config(model);
  const GgufModel written{
      base::file_name(directory), config, model.end_ids(), weights, gguf_type(format.type, dtype_name(model)),
      format.vocabulary};
  save(directory, fault, [&](base::StagedDirectory& staged) -> std::vector<std::string> {
    staged.write(io::kGgufFile, [&](base::FileWriter& writer) { write_gguf(writer, written, log); });
    for (const engine::NamedBytes& file : format.files) staged.write(file.name, file.bytes);
    return {std::string(io::kGgufFile)};
  });
}

}  // namespace trl::checkpoint
