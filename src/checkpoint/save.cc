#include "checkpoint/save.h"

#include <algorithm>

#include "adapter/config_file.h"
#include "adapter/tensors.h"
#include "base/error.h"
#include "base/files/files.h"
#include "base/files/host_files.h"
#include "checkpoint/directory.h"
#include "checkpoint/gguf_file.h"

namespace trl::checkpoint {

namespace {

constexpr std::string_view kConfig = "config.json";
constexpr std::string_view kGenerationConfig = "generation_config.json";

// Checks a name that a file of the caller has in a saved directory.
void check_file_name(std::string_view name) {
  const bool ours = name == kConfig || name == kGenerationConfig || name == adapter::kConfigFile ||
                    name == adapter::kWeightsFile || io::is_weight_file(name);
  if (!base::is_plain_path(name) || ours)
    fail(Status::invalid_argument, "file \"{}\" cannot be put into a saved model", name);
}

std::string json_text(const base::Json& json) { return json.dump(2) + "\n"; }

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

bool has_card(std::span<const engine::NamedBytes> files) {
  return std::ranges::any_of(files, [](const auto& file) { return file.name == adapter::kModelCard; });
}

// Says whether a directory has a card that stays. A host gets all files of a folder each time.
bool keeps_card(const std::string& directory) {
  return !base::is_host_path(directory) && base::file_exists(base::join_path(directory, adapter::kModelCard));
}

// write: returns the names of the weight files that it wrote.
void save(const std::string& directory, const base::WriteFault* fault,
          const std::function<std::vector<std::string>(base::StagedDirectory&)>& write) {
  refuse_checkpoint(directory);
  refuse_beside_adapter(directory);
  base::StagedDirectory staged(directory, fault);
  const std::vector<std::string> written = write(staged);
  if (base::is_directory(directory)) {
    for (const std::string& name : base::list_directory(directory))
      if (io::is_weight_file(name) && std::ranges::find(written, name) == written.end())
        staged.replaces(name);
  }
  staged.commit();
}

std::vector<model::Adapter::Stored> tensors_of(const model::Adapter& adapter) {
  std::vector<model::Adapter::Stored> all = adapter.stored();
  for (model::Adapter::Stored& table : adapter.tables()) all.push_back(std::move(table));
  return all;
}

}  // namespace

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
  for (io::NamedTensor& tensor : tensors)
    if (tensor.fill) tensor.fill = on_all_threads(std::move(tensor.fill), io::element_size(tensor.type));
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
  if (has_card(all) || keeps_card(directory)) return all;
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

const char* dtype_name(const model::Model& model) {
  return model.dtype() == at::kBFloat16 ? "bfloat16" : "float32";
}

void set_dtype(base::Json& config, const std::string& name) {
  const char* key = config.contains("torch_dtype") && !config.contains("dtype") ? "torch_dtype" : "dtype";
  config[key] = name;
  config.erase("quantization_config");
}

base::Json saved_config(model::Model& model) {
  base::Json config = model.config_json();
  if (has_own_head(model)) {
    const char* const text = model.config().family->text;
    config["tie_word_embeddings"] = false;
    if (text != nullptr && config.contains(text)) config[text]["tie_word_embeddings"] = false;
  }
  // transformers names the type of the first weight, which a float32 head may be tied to
  set_dtype(config, model.parameters().front()->dtype() == at::kFloat ? "float32" : dtype_name(model));
  config["architectures"] = base::Json::array({model.config().architecture});
  return config;
}

model::ModelConfig saved_model_config(model::Model& model) {
  model::ModelConfig config = model.config();
  config.tie_word_embeddings = config.tie_word_embeddings && !has_own_head(model);
  return config;
}

std::string config_text(const model::Adapter& adapter) {
  return adapter::config_text(adapter.stored_config(), adapter.selection(), modules_of(adapter.slots()));
}

int64_t weight_bytes(const model::Adapter& adapter) {
  int64_t bytes = 0;
  for (const model::Adapter::Stored& stored : tensors_of(adapter))
    bytes += static_cast<int64_t>(stored.values.nbytes());
  return bytes;
}

void write_adapter(base::StagedDirectory& staged, const model::Adapter& adapter,
                   std::span<const engine::NamedBytes> files) {
  for (const engine::NamedBytes& file : files) check_file_name(file.name);
  staged.write(adapter::kWeightsFile, [&](base::FileWriter& writer) {
    const std::vector<model::Adapter::Stored> stored = tensors_of(adapter);
    std::vector<io::NamedTensor> tensors;
    for (const auto& [name, values] : stored) tensors.push_back(named_tensor(name, values));
    io::write_safetensors(writer, tensors);
  });
  for (const engine::NamedBytes& file : files) staged.write(file.name, file.bytes);
  staged.write(adapter::kConfigFile, config_text(adapter));
}

void write_card(base::StagedDirectory& staged, const model::Adapter& adapter,
                std::span<const engine::NamedBytes> files, std::span<const std::string_view> tags) {
  if (!has_card(files)) staged.write(adapter::kModelCard, adapter::model_card(adapter.stored_config(), tags));
}

void save_adapter(const std::string& directory, const model::Adapter& adapter,
                  std::span<const engine::NamedBytes> files, std::span<const std::string_view> tags,
                  const base::WriteFault* fault) {
  refuse_checkpoint(directory);
  base::StagedDirectory staged(directory, fault);
  write_adapter(staged, adapter, files);
  if (!keeps_card(directory)) write_card(staged, adapter, files, tags);
  staged.commit();
}

MemoryWeights::MemoryWeights(model::Model& model) : model_(model) {
  for (io::NamedTensor& tensor : tensors_of(model, host_)) tensors_.emplace(tensor.name, std::move(tensor));
}

const std::vector<int64_t>* MemoryWeights::shape(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second.shape;
}

void MemoryWeights::read(const std::string&, at::Tensor&) const {
  fail(Status::internal, "a model in memory is read in parts");
}

void MemoryWeights::read(const std::string& name, int64_t first, int64_t count, float* out) const {
  const io::NamedTensor& tensor = tensors_.at(name);
  if (tensor.data != nullptr) return io::read_floats(tensor.type, tensor.data, first, count, out);
  std::vector<char> numbers(static_cast<size_t>(count) * io::element_size(tensor.type));
  tensor.fill(first, count, numbers.data());
  io::read_floats(tensor.type, numbers.data(), 0, count, out);
}

std::vector<std::string> MemoryWeights::others(const std::set<std::string>& used) const {
  return model::names_except(tensors_, used);
}

}  // namespace trl::checkpoint
