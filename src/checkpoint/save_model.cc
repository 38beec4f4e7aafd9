#include "checkpoint/save_model.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/directory.h"
#include "tensor/device.h"

namespace trl::checkpoint {

namespace {

using base::Json;

constexpr std::string_view kConfig = "config.json";
constexpr std::string_view kGenerationConfig = "generation_config.json";

std::string json_text(const Json& json) { return json.dump(2) + "\n"; }

// As loaded, but for what this save decides: the type of the weights, and the class that they are the weights
// of.
Json saved_config(const model::Model& model) {
  Json config = model.config_json();
  const char* key = config.contains("torch_dtype") && !config.contains("dtype") ? "torch_dtype" : "dtype";
  config[key] = model.dtype() == at::kBFloat16 ? "bfloat16" : "float32";
  config["architectures"] = Json::array({model.config().architecture});
  return config;
}

// host: keeps what the result points to
std::vector<io::NamedTensor> tensors_of(model::Model& model, std::vector<at::Tensor>& host) {
  std::vector<io::NamedTensor> tensors;
  for (tensor::Parameter* parameter : model.parameters()) {
    host.push_back(tensor::on_host(*parameter->read()));
    const bool narrow = parameter->dtype() == at::kBFloat16;
    for (const model::StoredPart& part : model.stored(*parameter)) {
      const at::Tensor values = part.of(host.back());
      tensors.push_back({part.name, narrow ? io::ElementType::bf16 : io::ElementType::f32,
                         values.sizes().vec(), values.data_ptr()});
    }
  }
  return tensors;
}

void check_name(std::string_view name) {
  const bool ours = name == kConfig || name == kGenerationConfig || io::is_weight_file(name);
  if (!base::is_plain_path(name) || ours)
    fail(Status::invalid_argument, "file \"{}\" cannot be put into a saved model", name);
}

}  // namespace

std::vector<std::string> write_model(base::StagedDirectory& staged, model::Model& model,
                                     std::span<const engine::NamedBytes> files, int64_t max_shard_bytes) {
  for (const engine::NamedBytes& file : files) check_name(file.name);
  std::vector<at::Tensor> host;
  std::vector<std::string> weights = io::write_weights(staged, tensors_of(model, host), max_shard_bytes);
  for (const engine::NamedBytes& file : files) staged.write(file.name, file.bytes);
  staged.write(kGenerationConfig, json_text(model.generation_config_json()));
  staged.write(kConfig, json_text(saved_config(model)));
  return weights;
}

void save_model(const std::string& directory, model::Model& model, std::span<const engine::NamedBytes> files,
                const base::WriteFault* fault, int64_t max_shard_bytes) {
  refuse_checkpoint(directory);
  base::StagedDirectory staged(directory, fault);
  const std::vector<std::string> written = write_model(staged, model, files, max_shard_bytes);
  if (base::is_directory(directory)) {
    for (const std::string& name : base::list_directory(directory)) {
      if (io::is_weight_file(name) && std::find(written.begin(), written.end(), name) == written.end()) {
        staged.replaces(name);
      }
    }
  }
  staged.commit();
}

}  // namespace trl::checkpoint
