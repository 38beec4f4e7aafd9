#include "model/model.h"

#include <ATen/CPUGeneratorImpl.h>

#include "model/config/families.h"
#include "model/files/special_tokens.h"
#include "model/weights/initial_values.h"
#include "tensor/device.h"
#include "tensor/memory/counted.h"
#include "tensor/memory/rehearsal.h"
#include "tensor/threads/parallel.h"

namespace trl::model {

Model::Model(ModelFiles files, std::shared_ptr<const WeightSource> source, at::ScalarType dtype,
             at::Device device, const config::Quantization& quantization, Held held, base::LogSink* log,
             uint64_t seed)
    : files_(std::move(files)),
      dtype_(dtype),
      device_(device),
      generator_(at::detail::createCPUGenerator(seed)) {
  Loader loader(config(), *source, dtype, device, quantization, held, loaded_);
  embedding_ = loader.embedding();
  positions_ = loader.positions();
  for (int64_t i = 0; i < config().num_hidden_layers; ++i) {
    layer_parameters_.push_back(loaded_.all.size());
    layers_.push_back(loader.layer(i));
  }
  layer_parameters_.push_back(loaded_.all.size());
  norm_ = loader.final_norm();
  head_ = config().labels > 0 ? loader.score(generator_) : loader.head(embedding_);
  carried_ = loader.carried();
  source->check();
  if (!carried_.empty() || held != Held::numbers) source_ = std::move(source);
  loader.report_others(log);
  adapters_ = Adapters(slots(), std::string(config().family->model_type), device_);
}

Model::~Model() = default;

std::vector<std::string> Model::align_special_tokens(const engine::SpecialTokens& tokens) {
  base::Json* const generation = config().labels > 0 ? nullptr : &files_.generation_config_json;
  std::vector<std::string> changes = model::align_special_tokens(files_.config_json, generation, tokens);
  files_.end_ids = parse_end_ids(files_.generation_config_json, "generation_config.json");
  return changes;
}

void Model::resize_embeddings(int64_t rows) {
  if (rows == config().vocab_size) return;
  for (Parameter* const table : {embedding_, head_})
    if (table->encoded() != nullptr) table->decode();
  EmbeddingRows resize(rows, generator_);
  const auto on = [&](at::Tensor values) { return device_.is_cpu() ? values : values.to(device_); };
  embedding_->replace(on(resize.embedding(tensor::on_host(*embedding_->read()))));
  if (embedding_->padding_row >= rows) embedding_->padding_row = -1;
  if (head_ != embedding_ && config().labels == 0)
    head_->replace(on(resize.head(tensor::on_host(*head_->read()))));
  adapters_.resized(rows);
  files_.config.vocab_size = rows;
  const char* text = config().family->text;
  base::Json& json = text == nullptr ? files_.config_json : files_.config_json[text];
  json[config().family->sizes.vocab.key] = rows;
}

void Model::widen_head() {
  if (head_->encoded() != nullptr || head_->dtype() == at::kFloat) return;
  const at::Tensor values = tensor::empty(head_->shape(), at::kFloat, tensor::MemoryKind::weights, device_);
  if (tensor::Rehearsal::current() == nullptr) tensor::copy_in_parts(values, *head_->read());
  head_->replace(values);
}

std::shared_ptr<void> Model::compute_head_in_float32() {
  ++float32_heads_;
  return {this, [](Model* model) { --model->float32_heads_; }};
}

std::vector<Parameter*> Model::parameters() const {
  std::vector<Parameter*> all;
  for (const auto& parameter : loaded_.all) all.push_back(parameter.get());
  return all;
}

uint64_t Model::weights_version() const {
  uint64_t version = 0;
  for (const Parameter* const parameter : parameters()) version += parameter->version();
  return version;
}

std::vector<Parameter*> Model::all_parameters() {
  std::vector<Parameter*> all = parameters();
  for (const auto& adapter : adapters().all())
    for (Parameter* parameter : adapter->parameters()) all.push_back(parameter);
  return all;
}

void Model::train_only(Adapter& adapter) {
  for (Parameter* parameter : all_parameters()) parameter->trainable = false;
  for (Parameter* parameter : adapter.parameters()) parameter->trainable = true;
  adapters().use(&adapter);
  adapters().train(&adapter);
}

std::vector<Model::Carried> Model::carried() const {
  std::vector<Carried> all;
  for (const std::string& name : carried_) all.push_back({name, source_->raw(name)});
  return all;
}

const std::vector<StoredPart>* Model::parts_of(const Parameter& parameter) const {
  const auto parts = loaded_.parts.find(&parameter);
  return parts != loaded_.parts.end() ? &parts->second : nullptr;
}

}  // namespace trl::model
