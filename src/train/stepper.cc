#include "train/stepper.h"

#include <ATen/core/grad_mode.h>
#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/interrupt.h"
#include "tensor/memory/rehearsal.h"
#include "tensor/parts.h"
#include "train/frozen_layers.h"
#include "train/micro_batch.h"
#include "train/offloading.h"
#include "train/policy/joint.h"
#include "train/scoring/weights_digest.h"

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

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Measures the time that is saved by rows which go through no backward.
class SilentTime {
 public:
  // Runs a forward.
  template <typename Forward>
  model::Output of(const Forward& forward) {
    const bool silent = !at::GradMode::is_enabled();
    const Clock::time_point begin = Clock::now();
    model::Output output = forward();
    if (silent) silent_ += seconds_since(begin);
    return output;
  }
  // Call after the last backward. pace: seconds of a token of other rows, which are kept for windows without
  // any.
  double saved(const Joint& joint, double& pace) const {
    const int64_t learning = joint.tokens() - joint.silent_tokens();
    if (learning > 0) pace = (seconds_since(begin_) - silent_) / static_cast<double>(learning);
    if (joint.silent_rows == 0) return 0;
    return std::max(0.0, pace * static_cast<double>(joint.silent_tokens() + joint.left_out) - silent_);
  }

 private:
  const Clock::time_point begin_ = Clock::now();
  double silent_ = 0;  // seconds
};

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

// Updates during backward. The window has one micro-batch, in one part. If clipping needs a norm and no
// earlier step gives it, a backward without updates finds it.
bool Stepper::accumulate_and_update() {
  std::optional<BackwardStep::Updates> updates;
  double norm = std::nan("");
  const auto backward = [&](const at::Tensor& graph, Order) {
    norm = backward_step_->run(updates, [&] {
      if (graph.defined() && graph.requires_grad()) graph.backward();
    });
  };
  std::optional<double> scale = arguments().max_grad_norm > 0 ? previous_scale() : 1.0;
  if (!scale) {
    run(backward);
    accepts(norm, "gradient norm", window_);
    scale = optim::clip_scale(norm, arguments().max_grad_norm);
    learned_ = {};
    begin_collecting(window_);
  }
  updates = {place_.learning_rate, *scale, [&](const tensor::Parameter& p, bool finite) {
               setup_.model->check_files();
               if (finite || arguments().on_nonfinite == config::OnNonfinite::proceed) return;
               throw Error(Status::invalid_argument,
                           fmt::format("the gradient of {} in step {} is not finite (dataset rows {}); {}",
                                       p.name, place_.step + 1, row_list(window_), advice()),
                           "on_nonfinite");
             }};
  const bool goes_on = run(backward);
  learned_.norm = norm;
  return goes_on;
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

Learned Stepper::update(bool apply) {
  const Clock::time_point start = Clock::now();
  if (!backward_step_) {
    const tensor::Timed timed(tensor::Part::optimizer);
    if (!learned_.skipped) learned_.norm = optim::l2_norm(optim::gradients(parameters_));
    base::poll();
    setup_.model->check_files();
    if (!apply) learned_.skipped = true;
    if (!learned_.skipped) learned_.skipped = !accepts(learned_.norm, "gradient norm", window_);
    const base::InterruptScope whole(nullptr);  // not interrupted once begun
    if (!learned_.skipped) optimizer_->step(place_.learning_rate, clip_scale(learned_.norm));
  }
  gradients_.drop();
  window_ = {};
  if (!learned_.skipped) learned_.metrics.push_back(method_->update_metrics());
  learned_.optimizer_seconds = seconds_since(start);
  return std::move(learned_);
}

double Stepper::clip_scale(double norm) const {
  return previous_scale().value_or(optim::clip_scale(norm, arguments().max_grad_norm));
}

std::optional<double> Stepper::previous_scale() const {
  if (!arguments().clip_by_previous_norm || !place_.previous_norm) return std::nullopt;
  return optim::clip_scale(*place_.previous_norm, arguments().max_grad_norm);
}

// on_nonfinite: says whether the step learns from a window with this value. Throws if that is an error.
bool Stepper::accepts(double value, std::string_view what, std::span<const MicroBatch> batches) const {
  using config::OnNonfinite;
  if (std::isfinite(value) || arguments().on_nonfinite == OnNonfinite::proceed) return true;
  const std::string line =
      fmt::format("the {} of step {} is {} (dataset rows {}); the weights are as before {}; {}", what,
                  place_.step + 1, std::isnan(value) ? std::nan("") : value, row_list(batches),
                  updates_.empty() ? "the step" : "this update of the step", advice());
  if (arguments().on_nonfinite == OnNonfinite::error)
    throw Error(Status::invalid_argument, line, "on_nonfinite");
  if (setup_.log != nullptr) setup_.log->warning("train", "on_nonfinite skip: {}", line);
  return false;
}

// Names a weight that is not finite, if any, and says how the run can be mended.
std::string Stepper::advice() const {
  const std::string weight = faulty_weight(*setup_.model);
  if (!weight.empty() && place_.step == 0) return weight + std::string(kGiveFinite);
  if (const std::string other = weight.empty() ? method_->faulty_reference() : ""; !other.empty())
    return other + std::string(kGiveFinite);
  return fmt::format("{}{}try a lower learning_rate than {:g}", weight, weight.empty() ? "" : "; ",
                     std::max(arguments().learning_rate, place_.learning_rate));
}

std::vector<optim::StateTensor> Stepper::kept(int64_t step) const {
  std::vector<optim::StateTensor> all = method_->state(step);
  for (const TrainedModel& other : method_->others())
    for (tensor::Parameter* p : other.parameters) all.push_back({p->name, *p->write()});
  return all;
}

}  // namespace trl::train
