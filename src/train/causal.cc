#include "train/causal.h"

#include <ATen/core/grad_mode.h>

#include <cmath>

#include "base/arithmetic/counter_random.h"
#include "base/error.h"

namespace trl::train {

namespace {

constexpr uint64_t kDropout = 1;  // part of its keys, so that they differ from those of the noise

model::ForwardInput input_of(const MicroBatch& batch, const at::Tensor& states = {}) {
  return {batch.input_ids, batch.position_ids, batch.segments, states, batch.first, batch.reach};
}

}  // namespace

std::shared_ptr<void> int8_products(const config::TrainingArguments& arguments, model::Model& model) {
  if (arguments.frozen_compute != config::FrozenCompute::int8) return {};
  if (model.compute(arguments.bf16 ? at::kBFloat16 : at::kFloat) != at::kBFloat16) {
    fail_key("frozen_compute",
             "frozen_compute: int8 takes the place of products in bfloat16, and these are in float32: give "
             "bf16: true, or dtype: bfloat16, or frozen_compute: auto");
  }
  return model.multiply_in_int8();
}

Causal::Causal(const config::TrainingArguments& arguments, model::Model& model,
               kernels::AttentionPluginPtr attention)
    : model_(model),
      attention_(std::move(attention)),
      compute_(model.compute(arguments.bf16 ? at::kBFloat16 : at::kFloat)),
      recompute_(arguments.recompute),
      small_tiles_(arguments.levers.small_tiles),
      as_generated_(arguments.generation_exact),
      dropout_(!arguments.disable_dropout),
      temperature_(arguments.online.loss_temperature),
      neftune_alpha_(arguments.neftune_noise_alpha),
      seed_(static_cast<uint64_t>(arguments.seed)),
      router_weight_(arguments.router_aux_loss_coef.value_or(model.config().experts.balance)),
      router_loss_(model.config().experts.count > 0 && router_weight_ != 0) {
  check_routers(arguments);
}

void Causal::check_routers(const config::TrainingArguments& arguments) const {
  const std::string& type = model_.config().model_type;
  if (model_.config().experts.count == 0 && router_weight_ != 0) {
    fail_key("router_aux_loss_coef",
             "router_aux_loss_coef: {} weights the routers' loss of a mixture of experts, and this model "
             "({}) is not one; leave it out",
             router_weight_, type);
  }
  if (!router_loss_ || !arguments.max_tokens_per_pass) return;
  fail_key("max_tokens_per_pass",
           "max_tokens_per_pass: {} is refused, because the routers' loss of this model ({}) is of a whole "
           "micro-batch, which then cannot go through it in parts: leave it out, or give "
           "router_aux_loss_coef: 0 (no such loss)",
           *arguments.max_tokens_per_pass, type);
}

model::Output Causal::forward(const MicroBatch& batch, const std::optional<RunPosition>& training,
                              const at::Tensor& states, int64_t router_tokens) const {
  model::ForwardOptions options;
  options.compute = compute_;
  if (training) options.recompute = recompute_;
  if (training && small_tiles_) options.tiles.mlp_tokens = 1;  // rounded up to the smallest
  options.attention = attention_;
  options.as_generated = as_generated_;
  options.router_loss = router_loss_;
  options.router_tokens = router_tokens;
  if (training) {
    options.noise = neftune(batch, *training);
    if (dropout_)
      options.random = base::counter_seed({seed_, static_cast<uint64_t>(training->step),
                                           static_cast<uint64_t>(training->micro_batch), kDropout});
  }
  return model_.forward(input_of(batch, states), options);
}

model::Output Causal::forward_by(const model::Adapter* adapter, const MicroBatch& batch) const {
  const at::NoGradGuard no_graph;
  model::ForwardOptions options;
  options.compute = compute_;
  options.attention = attention_;
  options.as_generated = as_generated_;
  options.adapter = adapter;
  return model_.forward(input_of(batch), options);
}

model::Output Causal::forward_by(const model::Model& model, const MicroBatch& batch) const {
  const at::NoGradGuard no_graph;
  model::ForwardOptions options;
  options.compute = model.compute(compute_);
  options.attention = attention_;
  options.as_generated = as_generated_;
  return model.forward(input_of(batch), options);
}

// Jain et al. 2023; as in transformers the length is that of the padded batch.
kernels::Noise Causal::neftune(const MicroBatch& batch, const RunPosition& at) const {
  if (neftune_alpha_ == 0) return {};
  const auto values = static_cast<double>(batch.width * model_.config().hidden_size);
  return {neftune_alpha_ / std::sqrt(values),
          base::counter_seed({seed_, static_cast<uint64_t>(at.step), static_cast<uint64_t>(at.micro_batch)})};
}

}  // namespace trl::train
