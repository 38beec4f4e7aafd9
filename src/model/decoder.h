// The only decoder, for every family: embedding, layers, final norm. The families' differences are in the
// table (families.h).
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "model/loader.h"
#include "model/model.h"
#include "model/open.h"

namespace trl::model {

class Decoder final : public Model {
 public:
  Decoder(ModelFiles files, std::shared_ptr<const WeightSource> source, at::ScalarType dtype,
          at::Device device, const config::Quantization& quantization, Held held, base::LogSink* log,
          uint64_t seed);

  const ModelConfig& config() const override { return files_.config; }
  const base::Json& config_json() const override { return files_.config_json; }
  const base::Json& generation_config_json() const override { return files_.generation_config_json; }
  const std::vector<int32_t>& end_ids() const override { return files_.end_ids; }
  std::vector<std::string> align_special_tokens(const engine::SpecialTokens& tokens) override;
  at::Generator generator() override { return generator_; }
  void resize_embeddings(int64_t rows) override;
  std::vector<Parameter*> parameters() override;
  std::vector<Carried> carried() const override;
  std::vector<StoredPart> stored(const Parameter& parameter) const override;
  Adapters& adapters() override { return adapters_; }
  std::shared_ptr<void> multiply_in_int8() override;
  Parameter& head() override { return *head_; }
  const kernels::OwnRows& head_rows() const override { return head_rows_; }
  at::ScalarType dtype() const override { return dtype_; }
  at::Device device() const override { return device_; }

  void check_files() const override {
    if (source_) source_->check();
  }
  Output forward(const ForwardInput& input, const ForwardOptions& options) override;
  int64_t frozen_layers() const override { return frozen_layers(adapters_.in_use()); }
  at::Tensor frozen_states(const ForwardInput& input, const ForwardOptions& options) override;
  std::vector<Parameter*> frozen_parameters() override;
  std::vector<at::Tensor> hidden_states(const ForwardInput& input, const ForwardOptions& options) override;
  std::shared_ptr<KvCache> new_cache(int64_t capacity) override;
  at::Tensor extend(KvCache& cache, const std::vector<int32_t>& ids, at::ScalarType compute) override;

 private:
  void check(const ForwardInput& input) const;
  std::vector<Slot> slots();
  Slot slot(Parameter*& weight, Parameter*& bias, adapter::ModuleKind kind, int64_t layer) const;
  void add_layer_slots(int64_t index, std::vector<Slot>& slots);
  void add_expert_slots(BlockExperts& experts, int64_t index, std::vector<Slot>& slots);
  // The first layer that computes with a trained parameter, as Slot::layer counts: a graph begins there.
  int64_t first_trained_layer(const Adapter* adapter) const;
  // Whether one of these of the model's own parameters is trained.
  bool trains(size_t begin, size_t end) const;
  // Whether the graph begins within that layer, at projections that an adapter trains.
  bool begins_in_projections(const Adapter* adapter, int64_t layer) const;
  int64_t frozen_layers(const Adapter* adapter) const;
  at::Tensor below(const ForwardInput& input, const ForwardOptions& options, int64_t layers);
  LayerContext context(const ForwardInput& input, const ForwardOptions& options) const;
  at::Tensor embed(const ForwardInput& input, const ForwardOptions& options = {});
  // Runs one pass over the layers; the positions continue after those in the cache.
  at::Tensor step(KvCache& cache, const int32_t* ids, int64_t count, at::ScalarType compute);

  ModelFiles files_;
  at::ScalarType dtype_;
  at::Device device_;
  at::Generator generator_;
  LoadedParameters loaded_;
  std::vector<std::string> carried_;
  std::shared_ptr<const WeightSource> source_;  // the source of carried or mapped weights; else null
  std::vector<std::unique_ptr<DecoderLayer>> layers_;
  // Each layer's first index in the list of all parameters, and the end.
  std::vector<size_t> layer_parameters_;
  Parameter* embedding_ = nullptr;
  Parameter* positions_ = nullptr;  // null: no learned positions
  Norm norm_;
  Parameter* head_ = nullptr;
  Parameter* no_bias_ = nullptr;
  kernels::LowRank embedding_terms_;  // the terms of the adapter in use
  kernels::OwnRows embedding_rows_, head_rows_;
  Adapters adapters_;
};

}  // namespace trl::model
