// Frozen layers: their products in 8-bit integers, and the layers below the first trained one, whose output
// for a document never changes, so a batch is computed in such a way that other documents do not change it
// either.
#include <algorithm>

#include "base/error.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/gemm_int8.h"
#include "kernels/path.h"
#include "model/model.h"

namespace trl::model {

namespace {

using kernels::Int8Products;
using kernels::Projection;

void check(const Projection& p) {
  if (!p.weight->device().is_cpu()) {
    fail_key("frozen_compute",
             "frozen_compute: int8 is refused, because the model is on {}, and products in 8-bit integers "
             "are the CPU's: give auto, or use_cpu: true",
             p.weight->device().str());
  }
  if (const tensor::Encoded* const encoded = p.weight->encoded()) {
    fail_key("frozen_compute",
             "frozen_compute: int8 would hold weights a second time, in 2 bytes each, and {} is held as {} "
             "to save memory: give auto, or open the model without quantisation",
             p.weight->name, encoded->form());
  }
  if (!kernels::has_int8_products()) {
    fail_key("frozen_compute",
             "frozen_compute: int8 needs a processor with AVX512-VNNI or AMX, and this one has neither (or "
             "ONEDNN_MAX_CPU_ISA hides it): give auto");
  }
}

// The int8 products that the layers use during its lifetime.
class Int8Layers {
 public:
  explicit Int8Layers(std::vector<Projection*> projections)
      : places_(std::move(projections)),
        fixing_(weights(), "frozen_compute: int8 computes with codes that were made of it") {
    for (const Projection* p : places_) {
      check(*p);
      made_.push_back(std::make_unique<Int8Products>(*p));
    }
    for (size_t i = 0; i < places_.size(); ++i) places_[i]->int8 = made_[i].get();
  }
  ~Int8Layers() {
    for (Projection* p : places_) p->int8 = nullptr;
  }
  Int8Layers(const Int8Layers&) = delete;
  Int8Layers& operator=(const Int8Layers&) = delete;

 private:
  std::vector<Parameter*> weights() const {
    std::vector<Parameter*> all;
    for (const Projection* p : places_) all.push_back(p->weight);
    return all;
  }

  const std::vector<Projection*> places_;
  const tensor::Fixing fixing_;
  std::vector<std::unique_ptr<Int8Products>> made_;
};

at::Tensor with_zeros(const at::Tensor& ids, int64_t count) {
  at::Tensor longer = at::zeros({ids.numel() + count}, at::kInt);
  longer.narrow(0, 0, ids.numel()).copy_(ids);
  return longer;
}

// Adds a last document of token 0, so that matrix products have whole tiles.
ForwardInput filled(const ForwardInput& input) {
  const int64_t tokens = input.input_ids.numel();
  const int64_t more = (kernels::kRowsTogether - tokens % kernels::kRowsTogether) % kernels::kRowsTogether;
  if (more == 0) return input;
  auto segments = std::make_shared<kernels::Segments>(*input.segments);
  segments->cu_seqlens.push_back(static_cast<int32_t>(tokens + more));
  segments->max_length = std::max(segments->max_length, more);
  if (!segments->prefix.empty()) segments->prefix.push_back(-1);
  if (!segments->padding.empty()) segments->padding.push_back(0);
  segments->rows.clear();  // nothing computed here counts rows
  return {with_zeros(input.input_ids, more),
          with_zeros(input.position_ids, more),
          segments,
          {},
          input.first,
          input.reach};
}

}  // namespace

std::shared_ptr<void> Model::multiply_in_int8() {
  std::vector<Projection*> projections;
  for (const auto& layer : layers_)
    for (Projection* p : layer->projections()) projections.push_back(p);
  return std::make_shared<Int8Layers>(std::move(projections));
}

int64_t Model::frozen_layers(const Adapter* adapter) const {
  if (!embedding_->has_trainer()) return 0;
  return std::clamp<int64_t>(first_trained_layer(adapter), 0, std::ssize(layers_));
}

std::vector<Parameter*> Model::frozen_parameters() const {
  std::vector<Parameter*> all = parameters();
  all.resize(layer_parameters_[static_cast<size_t>(frozen_layers())]);
  if (const Adapter* const adapter = adapters_.trained())
    for (Parameter* table : adapter->kept_tables()) all.push_back(table);
  return all;
}

at::Tensor Model::frozen_states(const ForwardInput& input, const ForwardOptions& options) const {
  check(input);
  return below(input, options, frozen_layers(adapter_of(options)));
}

at::Tensor Model::below(const ForwardInput& input, const ForwardOptions& options, int64_t layers) const {
  const at::NoGradGuard no_grad;
  const kernels::EachRowByItself by_itself;
  const bool fused = kernels::fused(device_) && options.attention == nullptr;
  const ForwardInput whole = fused ? filled(input) : input;
  LayerContext shared = context(whole, options);
  shared.tile_unit = 3 * kernels::kSumPiece;
  static_assert(3 * kernels::kSumPiece % kernels::kRowsTogether == 0);
  at::Tensor x = embed(whole, options, shared);
  for (int64_t i = 0; i < layers; ++i) {
    if (options.random) shared.random = part_of(*options.random, static_cast<size_t>(i));
    x = layers_[static_cast<size_t>(i)]->forward(x, shared).stream;
  }
  return x.narrow(0, 0, input.input_ids.numel());
}

}  // namespace trl::model
