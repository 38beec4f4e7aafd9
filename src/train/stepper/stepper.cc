#include "train/stepper/stepper.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "train/batches/micro_batch.h"
#include "train/memory/frozen_layers.h"
#include "train/memory/offloading.h"

namespace trl::train {

namespace {

std::optional<at::ScalarType> gradient_type(const config::TrainingArguments& arguments) {
  using config::GradientType;
  if (arguments.gradient_dtype == GradientType::of_weights) return std::nullopt;
  return arguments.gradient_dtype == GradientType::float32 ? at::kFloat : at::kBFloat16;
}

// Adds the parameters of the models that a method trains with the policy. They get the model's name before
// theirs, so that states and messages tell them apart.
const std::vector<tensor::Parameter*>& add_others(std::vector<tensor::Parameter*>& all,
                                                  const Method& method) {
  for (const TrainedModel& other : method.others()) {
    for (tensor::Parameter* p : other.parameters) {
      if (!p->name.starts_with(other.name + ".")) p->name = other.name + "." + p->name;
      all.push_back(p);
    }
  }
  return all;
}

// Joins the updates of a step: its loss is their mean.
Learned joined(std::vector<Learned> updates) {
  if (updates.size() == 1) return std::move(updates.front());
  Learned all;
  const auto count = static_cast<float>(updates.size());
  for (Learned& own : updates) {
    all.loss += own.loss / count;
    for (const float loss : own.losses) all.losses.push_back(loss / count);
    all.metrics.insert(all.metrics.end(), own.metrics.begin(), own.metrics.end());
    all.shared_tokens += own.shared_tokens;
    all.silent_rows += own.silent_rows;
    all.silent_seconds += own.silent_seconds;
    all.optimizer_seconds += own.optimizer_seconds;
    all.norm = own.norm;
    all.skipped = own.skipped;
    all.omitted = own.omitted;
  }
  return all;
}

}  // namespace

Stepper::Stepper(const Setup& setup)
    : setup_(setup),
      parameters_(setup.model->all_parameters()),
      int8_(int8_products(arguments(), *setup.model)),
      float32_head_(arguments().online.cast_lm_head_to_fp32 ? setup.model->compute_head_in_float32()
                                                            : nullptr),
      method_(make_method({arguments(), *setup.model, setup.attention, setup.source, setup.log, setup.train,
                           setup.eval,
                           /*only_evaluates=*/false, setup.tokens})),
      gradients_(add_others(parameters_, *method_), gradient_type(arguments())),
      optimizer_(optim::make_optimizer(parameters_, arguments())),
      share_(sharing_of(arguments(), *setup.model, setup.attention, setup.log)) {
  if (const model::ModelConfig& config = setup.model->config(); config.experts.jitter > 0) {
    fail(Status::unsupported, "config.json: {} is {}; this build trains routers without noise: set it to 0",
         config.family->experts.jitter.key, config.experts.jitter);
  }
  if (arguments().optimizer_in_backward) backward_step_.emplace(gradients_, *optimizer_);
  if (!arguments().cache_frozen_layers.empty()) frozen_ = std::make_unique<FrozenLayers>(setup);
  if (arguments().offload) offloading_ = std::make_unique<Offloading>(setup, path());
}

Stepper::~Stepper() = default;

kernels::Path Stepper::path() const { return kernels::path_of(arguments().plain()); }

Learned Stepper::step(std::span<const MicroBatch> window, const StepPlace& place) {
  backward(window, place);
  return end();
}

void Stepper::backward(std::span<const MicroBatch> window, const StepPlace& place) {
  for (;;) {
    const auto rest = window.subspan(static_cast<size_t>(first_));
    const auto last = std::ranges::find_if(rest, &MicroBatch::ends_update);
    const auto own = rest.first(std::min(rest.size(), static_cast<size_t>(last - rest.begin()) + 1));
    begin(own, place);
    while (learned_.losses.size() < own.size() && accumulate()) continue;
    if (learned_.skipped || own.size() == rest.size()) return gradients_.end_step();
    Learned made = update();
    if (made.skipped) {  // and with it the updates after it
      learned_ = std::move(made);
      return;
    }
    updates_.push_back(std::move(made));
    first_ += std::ssize(own);
  }
}

Learned Stepper::end(bool apply) {
  updates_.push_back(update(apply));
  first_ = 0;
  Learned step = joined(std::exchange(updates_, {}));
  if (!step.skipped) step.metrics.push_back(method_->step_metrics(step.metrics));
  return step;
}

void Stepper::leave() {
  forget_ahead();
  gradients_.drop();
  window_ = {};
  learned_ = {};
}

std::vector<optim::StateTensor> Stepper::kept(int64_t step) const {
  std::vector<optim::StateTensor> all = method_->state(step);
  for (const TrainedModel& other : method_->others())
    for (tensor::Parameter* p : other.parameters) all.push_back({p->name, *p->write()});
  return all;
}

}  // namespace trl::train
