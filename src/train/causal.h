// Sends a micro-batch through a causal model, for the methods that train one.
#pragma once
#include <optional>

#include "config/training_arguments.h"
#include "model/model.h"
#include "train/batches/micro_batch.h"

namespace trl::train {

// The position of a training forward in the run. All random numbers in it are drawn by counter from here, so
// a step that is tried again, or a run that is resumed, draws the same.
struct RunPosition {
  int64_t step = 0;  // updates done before
  // Its number among those of this window in all processes.
  int64_t micro_batch = 0;
};

// Sets up frozen_compute for the life of the result.
std::shared_ptr<void> int8_products(const config::TrainingArguments& arguments, model::Model& model);

class Causal {
 public:
  // Refuses router_aux_loss_coef if the model has no routers, and parts of a micro-batch if the routers' loss
  // is over all of it. attention: null: the built-in one.
  Causal(const config::TrainingArguments& arguments, model::Model& model,
         kernels::AttentionPluginPtr attention);

  // Runs a micro-batch or a part of it through the model. Without a position: evaluation. states:
  // ForwardInput's. router_tokens: ForwardOptions'.
  model::Output forward(const MicroBatch& batch, const std::optional<RunPosition>& training,
                        const at::Tensor& states, int64_t router_tokens = 0) const;
  // The same under another adapter (null: none) or model. No graph, no random numbers, no routers' loss.
  model::Output forward_by(const model::Adapter* adapter, const MicroBatch& batch) const;
  model::Output forward_by(const model::Model& model, const MicroBatch& batch) const;

  model::Model& model() const { return model_; }
  at::ScalarType compute() const { return compute_; }
  // Returns the options of the model's head, for a loss from which backward starts; `of`: another model's,
  // which computes in float32 if that of the model does.
  kernels::HeadOptions options(const model::UsedHead& head) const { return options(head, model_); }
  kernels::HeadOptions options(const model::UsedHead& head, const model::Model& of) const {
    kernels::HeadOptions options = of.head_options(compute_, head);
    if (model_.head_in_float32()) options.compute = at::kFloat;
    options.starts_backward = true;
    options.as_generated = as_generated_;
    options.temperature = temperature_;
    return options;
  }
  double router_weight() const { return router_weight_; }
  bool has_router_loss() const { return router_loss_; }

 private:
  void check_routers(const config::TrainingArguments& arguments) const;
  kernels::Noise neftune(const MicroBatch& batch, const RunPosition& at) const;

  model::Model& model_;
  const kernels::AttentionPluginPtr attention_;
  const at::ScalarType compute_;
  const config::Recompute recompute_;
  const bool small_tiles_;
  const bool as_generated_;
  const bool dropout_;
  const double temperature_;
  const double neftune_alpha_;
  const uint64_t seed_;
  const double router_weight_;
  const bool router_loss_;
};

}  // namespace trl::train
