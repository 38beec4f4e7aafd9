// Gradients: the micro-batches of a window go forward and backward.
#include <ATen/core/grad_mode.h>
#include <algorithm>

#include "base/error.h"
#include "tensor/memory/rehearsal.h"
#include "train/batches/micro_batch.h"
#include "train/memory/frozen_layers.h"
#include "train/memory/offloading.h"
#include "train/policy/joint.h"
#include "train/stepper/silent_time.h"
#include "train/stepper/stepper.h"

namespace trl::train {

namespace {

// Refuses rows beyond the learned positions whose lengths were not known before the run.
void check_positions(const MicroBatch& batch, const model::ModelConfig& model) {
  const int64_t positions = model.learned_positions();
  if (positions == 0 || batch.reach <= positions) return;
  const bool packed = std::ssize(batch.row_ids) > batch.rows;
  placed(batch.row_ids.size() == 1 ? trl::Place::of_row(batch.row_ids.front()) : trl::Place(), [&] {
    fail_key("max_length",
             "max_length: {} dataset rows {} has {} tokens, and the model has learned {} positions: give "
             "max_length: {}, so that {}",
             packed ? "a sequence of the packed" : "one of the", row_list({&batch, 1}), batch.reach,
             positions, positions, packed ? "no pack is longer" : "longer rows are cut");
  });
}

}  // namespace

void Stepper::begin(std::span<const MicroBatch> window, const StepPlace& place) {
  window_ = window;
  place_ = place;
  learned_ = {};
  if (!ahead_) begin_collecting(window);
  method_->begin_window();
  divisors_ = method_->divisors(window, true);
}

// A copy of a weight in the compute type saves conversions. With many tokens, which take more memory than
// few, a conversion is a small part of the time: if layers are recomputed and one micro-batch makes the step,
// a copy is kept only while its layer computes.
void Stepper::begin_collecting(std::span<const MicroBatch> window) {
  using Copies = Gradients::Copies;
  constexpr int64_t kMany = 2048;
  const bool again = arguments().recompute.form != config::Recomputed::nothing;
  const bool brief = again && window.size() == 1 && window[0].input_numel >= kMany;
  gradients_.begin_step(backward_step_ || !arguments().levers.weight_copies ? Copies::none
                        : brief                                             ? Copies::brief
                                                                            : Copies::kept);
  for (const auto& adapter : setup_.model->adapters().all()) adapter->keep_copies_as_model();
  // The head belongs to no layer, so its copy would be kept.
  const model::Model& model = *setup_.model;
  tensor::Parameter& head = *model.head_with(setup_.model->adapters().in_use()).weight;
  if (brief && head.has_gradient()) head.keep_copies(false);
}

bool Stepper::accumulate() {
  if (backward_step_) return accumulate_and_update();
  return run([&](const at::Tensor& graph, Order order) {
    if (order == Order::last_of_window) gradients_.begin_last_backward({});
    if (order != Order::before_another_part) gradients_.end_parts();
    if (graph.defined() && graph.requires_grad()) graph.backward();
  });
}

bool Stepper::run(const Backward& backward) {
  const at::AutoGradMode with_graph(true);
  const memory::Offload::Pass leaving(offloading_ ? &offloading_->policy() : nullptr);
  const size_t index = learned_.losses.size();
  const auto rest = window_.subspan(index);
  for (const MicroBatch& batch : rest) check_positions(batch, setup_.model->config());
  const Joint joint = next_rows(rest, method_->skips_silent());
  const auto batches = rest.first(joint.batches);
  const RunPosition position = this->position(place_.step, first_ + static_cast<int64_t>(index));
  const std::unique_ptr<BatchLoss> own = method_->joins() ? method_->joint_loss(batches, joint, divisors_)
                                                          : method_->loss(batches[0], joint.parts, divisors_);
  if (arguments().max_tokens_per_pass && joint.learning() > joint.batches) gradients_.begin_parts();
  const bool ends_window = joint.batches == rest.size();
  SilentTime silent;
  float loss = 0;
  own->each_part(
      joint.parts, [&](const MicroBatch& part) { return silent.of([&] { return forward(part, position); }); },
      [&](const Share& share, bool last) {
        loss += share.value;
        learned_.skipped = !accepts(loss, "loss", batches);
        const Order order = !last         ? Order::before_another_part
                            : ends_window ? Order::last_of_window
                                          : Order::last_of_rows;
        if (!learned_.skipped) backward(share.graph, order);
        return !learned_.skipped;
      });
  if (learned_.skipped) {
    learned_.loss += loss;
    return false;
  }
  take_results(own->results(loss), batches, joint);
  learned_.silent_rows += joint.silent_rows;
  learned_.silent_seconds += silent.saved(joint, seconds_of_token_);
  return true;
}

void Stepper::take_results(std::vector<BatchResult> results, std::span<const MicroBatch> batches,
                           const Joint& joint) {
  for (BatchResult& result : results) {
    learned_.loss += result.loss;
    learned_.losses.push_back(result.loss);
    learned_.metrics.push_back(std::move(result.metrics));
  }
  for (const MicroBatch& batch : batches) learned_.shared_tokens += batch.tokens();
  learned_.shared_tokens -= joint.tokens() + joint.left_out;
}

Joint Stepper::next_rows(std::span<const MicroBatch> rest, bool skips_silent) {
  if (!method_->joins()) return alone(rest[0], arguments().max_tokens_per_pass);
  return joined(rest,
                {setup_.model->config().vocab_size, share_, arguments().max_tokens_per_pass, skips_silent});
}

RunPosition Stepper::position(int64_t step, int64_t micro_batch) const {
  return {step, micro_batch * setup_.processes + setup_.rank};
}

void Stepper::forward_ahead(std::span<const MicroBatch> window, const StepPlace& place) {
  ahead_.reset();
  if (backward_step_ || offloading_ || frozen_) return;
  for (const MicroBatch& batch : window) check_positions(batch, setup_.model->config());
  const at::AutoGradMode with_graph(true);
  Joint joint = next_rows(window, /*skips_silent=*/false);
  begin_collecting(window);
  const RunPosition first = position(place.step, 0);
  model::Output output = forward(joint.parts[0], first);
  ahead_.emplace(std::move(joint.parts[0]), first, std::move(output));
}

model::Output Stepper::forward(const MicroBatch& batch, const std::optional<RunPosition>& training) {
  if (std::optional<ForwardAhead> ahead = std::exchange(ahead_, std::nullopt);
      ahead && ahead->is_of(batch, training))
    return std::move(*ahead).take();
  if (offloading_ && at::GradMode::is_enabled()) offloading_->need_room(batch, *method_);
  const tensor::Stage stage(training ? "forward" : "evaluation");
  return method_->forward(batch, training, frozen_ ? frozen_->states(batch) : at::Tensor());
}

}  // namespace trl::train
