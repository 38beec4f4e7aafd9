// The step itself: window, forward, backward, clip, update.
#include "train/trainer.h"

#include <ATen/core/grad_mode.h>

#include <random>

#include "base/error.h"
#include "base/files/files.h"
#include "base/interrupt.h"
#include "base/memory/pages.h"
#include "checkpoint/directory.h"
#include "checkpoint/directory_lock.h"
#include "tensor/memory/rehearsal.h"
#include "tensor/parts.h"
#include "train/batch_parts.h"
#include "train/faulty_weights.h"
#include "train/frozen_layers.h"
#include "train/offloading.h"
#include "train/step_profile.h"

namespace trl::train {

namespace {

// Returns 64 random bits, which distinguish two runs in one directory.
std::string new_run() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

// Counts parameters as num_parameters(exclude_embeddings=True) does.
int64_t parameters_outside_embeddings(const std::vector<tensor::Parameter*>& parameters) {
  int64_t count = 0;
  for (const tensor::Parameter* p : parameters) {
    if (!std::string_view(p->name).ends_with("embed_tokens.weight")) count += p->count();
  }
  return count;
}

std::optional<at::ScalarType> gradient_type(const config::TrainingArguments& arguments) {
  using config::GradientType;
  if (arguments.gradient_dtype == GradientType::of_weights) return std::nullopt;
  return arguments.gradient_dtype == GradientType::float32 ? at::kFloat : at::kBFloat16;
}

std::vector<const MicroBatch*> all_of(const std::vector<MicroBatch>& window) {
  std::vector<const MicroBatch*> all;
  for (const MicroBatch& batch : window) all.push_back(&batch);
  return all;
}

// Names a weight that is not finite, if any, and says how the run can be mended. steps: made so far.
std::string advice(model::Model& model, Method& method, int64_t steps, double learning_rate) {
  const std::string weight = faulty_weight(model);
  if (!weight.empty() && steps == 0) return weight + std::string(kGiveFinite);
  if (const std::string other = weight.empty() ? method.faulty_reference() : ""; !other.empty())
    return other + std::string(kGiveFinite);
  return fmt::format("{}{}try a lower learning_rate than {:g}", weight, weight.empty() ? "" : "; ",
                     learning_rate);
}

// Refuses rows beyond the learned positions whose lengths were not known before the run.
void check_positions(const MicroBatch& batch, const model::ModelConfig& model) {
  const int64_t positions = model.learned_positions();
  if (positions == 0 || batch.reach <= positions) return;
  const bool packed = std::ssize(batch.row_ids) > batch.rows;
  fail_key("max_length",
           "max_length: {} dataset rows {} has {} tokens, and the model has learned {} positions: give "
           "max_length: {}, so that {}",
           packed ? "a sequence of the packed" : "one of the", row_list({&batch}), batch.reach, positions,
           positions, packed ? "no pack is longer" : "longer rows are cut");
}

// Says how checkpoints of another run are treated.
checkpoint::Others others(const config::TrainingArguments& arguments, bool resumed) {
  if (arguments.save_strategy == config::Strategy::no) return checkpoint::Others::keep;
  return arguments.overwrite_output_dir && !resumed ? checkpoint::Others::remove : checkpoint::Others::refuse;
}

}  // namespace

struct Trainer::Pass {
  float loss = 0;  // of the window
  double norm = std::nan("");
  float loss_since_log = 0;
  Means means;      // since the last log
  Means own_means;  // of the window
  int64_t num_tokens = 0;
  int64_t tokens_seen = 0;  // num_input_tokens_seen
  double flos = 0;
  SharedTokens shared;
  bool skipped = false;  // on_nonfinite: the window is skipped
};

void check_device(const config::TrainingArguments& arguments, at::Device device) {
  if (device.is_cpu()) return;
  if (arguments.fused_kernels == config::FusedKernels::on) {
    fail_key("fused_kernels",
             "fused_kernels: on (or use_liger_kernel: true) is refused, because the model is on {}, and this "
             "build has fused kernels for the CPU: give fused_kernels: auto, or use_cpu: true",
             device.str());
  }
  if (!arguments.attention.plugin.empty()) {
    fail_key(
        "attn_implementation",
        "attn_implementation: {} is refused, because the model is on {}, and plug-ins compute on the CPU: "
        "give sdpa, or use_cpu: true",
        arguments.attention.name, device.str());
  }
}

void check_output(const config::TrainingArguments& arguments, bool saves_model) {
  if (saves_model) checkpoint::refuse_beside_adapter(arguments.output_dir, "output_dir");
  checkpoint::check_directory(arguments.output_dir, arguments.resume_from_checkpoint,
                              others(arguments, false));
}

namespace {

// Checks a setup. A rehearsal writes to no real memory.
Setup checked(Setup setup) {
  check_device(setup.arguments, setup.model->device());
  if (setup.arguments.makes_offload_dir && tensor::Rehearsal::current() == nullptr)
    base::make_directories(config::offload_directory(setup.arguments));
  return setup;
}

}  // namespace

Trainer::Trainer(Setup setup)
    : setup_(checked(std::move(setup))),
      steps_(run_steps(arguments(), setup_.train->batches_per_epoch(), setup_.train->rows())),
      parameters_(setup_.model->all_parameters()),
      int8_(int8_products(arguments(), *setup_.model)),
      method_(make_method({arguments(), *setup_.model, setup_.attention, setup_.model_path, setup_.log,
                           setup_.train, setup_.eval})),
      gradients_(parameters_, gradient_type(arguments())),
      optimizer_(optim::make_optimizer(parameters_, arguments())),
      schedule_(arguments(), steps_.max_steps),
      share_(sharing_of(arguments(), *setup_.model, setup_.attention, setup_.log)),
      batches_(*setup_.train, setup_.model->config().vocab_size, share_),
      flos_per_token_(6.0 * static_cast<double>(parameters_outside_embeddings(parameters_))),
      run_(new_run()) {
  state_.max_steps = steps_.max_steps;
  state_.logging_steps = steps_.logging_steps;
  state_.eval_steps = steps_.eval_steps;
  state_.save_steps = steps_.save_steps;
  state_.num_train_epochs = steps_.num_train_epochs;
  state_.train_batch_size = arguments().per_device_train_batch_size;
  stop_ = steps_.max_steps <= 0;
  if (const model::ModelConfig& config = setup_.model->config(); config.experts.jitter > 0) {
    fail(Status::unsupported, "config.json: {} is {}; this build trains routers without noise: set it to 0",
         config.family->experts.jitter.key, config.experts.jitter);
  }
  if (arguments().optimizer_in_backward) backward_step_.emplace(gradients_, *optimizer_);
  if (!arguments().cache_frozen_layers.empty()) frozen_ = std::make_unique<FrozenLayers>(setup_);
  if (arguments().offload) offloading_ = std::make_unique<Offloading>(setup_, path());
}

Trainer::~Trainer() = default;

bool Trainer::step() {
  check_whole();
  if (closed_ && !complete()) reopen();
  if (finished_) return false;
  try {
    return run_step();
  } catch (const Error& error) {
    if (backward_step_ && backward_step_->torn())
      throw Error(error.status(), torn(error.message()), error.key(), error.callback_code());
    if (error.status() != Status::cancelled) throw;
    fail(Status::cancelled, "cancelled after step {} of {}", state_.global_step, steps_.max_steps);
  }
}

std::string Trainer::torn(const std::string& why) const {
  return fmt::format(
      "optimizer_in_backward: step {} ended in the middle of its updates, so some weights are those after it "
      "and the others those before it, and this trainer cannot continue ({}); {}",
      state_.global_step + 1, why,
      last_checkpoint_.empty()
          ? "no checkpoint was saved: start the run again"
          : fmt::format("resume from the last checkpoint: resume_from_checkpoint: {}", last_checkpoint_));
}

void Trainer::check_whole() const {
  if (backward_step_ && backward_step_->torn())
    fail(Status::invalid_argument, "{}", torn("an earlier call gave the reason"));
}

bool Trainer::run_step() {
  const kernels::PathScope scope(path());
  begin();
  for (;;) {
    follow_up();
    if (stop_) return false;
    if (update()) break;
  }
  follow_up();
  return true;
}

void Trainer::rehearse() {
  const kernels::PathScope scope(path());
  const tensor::Stage stage("backward");  // everything outside the other stages
  update();
}

void Trainer::begin() {
  if (begun_) return;
  if (arguments().save_strategy != config::Strategy::no) base::make_directories(arguments().output_dir);
  lock_ = checkpoint::lock_directory(arguments().output_dir);
  checkpoint::prepare_directory(arguments().output_dir, run_, others(arguments(), resumed_));
  begun_ = true;
  base::give_back_pages();
  started_ = marked_ = Clock::now();
  marked_tokens_ = now_.num_tokens;
  if (!resumed_) now_.evaluation_due = arguments().eval_on_start;
  telemetry::Record about;
  if (const int64_t rows = setup_.train->rows(); rows >= 0) {
    about.set_integer("num_examples", rows);
    about.set_integer("num_train_epochs", steps_.num_train_epochs);
  }
  about.set_integer("train_batch_size", arguments().per_device_train_batch_size);
  about.set_integer("gradient_accumulation_steps", arguments().gradient_accumulation_steps);
  emit(engine::EventKind::train_begin, about);
}

// Does one update. false: the epoch held no further batch.
bool Trainer::update() {
  StepProfile profile(arguments().profile_parts);
  const std::vector<MicroBatch>& window =
      batches_.fill_window(steps_.window(now_.updates_in_epoch, arguments().gradient_accumulation_steps));
  if (window.empty()) {
    stop_ = stop_ || batches_.done_in_epoch() == 0;  // an epoch without a batch: no later one would have any
    now_.in_epoch = now_.epoch_complete = true;
    return false;
  }
  const double learning_rate = schedule_.learning_rate(state_.global_step);
  Pass pass = backward_step_ ? learn_in_backward(window, learning_rate) : learn(window, learning_rate);
  gradients_.drop();
  const MethodMetrics parts = profile.metrics(window);
  pass.means.add(parts);
  pass.own_means.add(parts);
  after_update(pass, learning_rate);
  return true;
}

Trainer::Pass Trainer::learn(const std::vector<MicroBatch>& window, double learning_rate) {
  Pass pass = run_window(window, [&](const at::Tensor& loss, const MicroBatch& batch, bool last_part) {
    if (last_part && &batch == &window.back()) gradients_.begin_last_backward({});
    if (last_part) gradients_.end_parts();
    if (loss.requires_grad()) loss.backward();
  });
  if (!pass.skipped) pass.norm = grad_norm();
  base::poll();
  setup_.model->check_files();
  if (!pass.skipped) pass.skipped = !accepts(pass.norm, "gradient norm", all_of(window));
  if (pass.skipped) return pass;
  const tensor::Timed timed(tensor::Part::optimizer);
  const base::InterruptScope whole(nullptr);  // not interrupted once begun
  optimizer_->step(learning_rate, grad_scale(pass.norm));
  return pass;
}

// Updates during backward. The window has one micro-batch, in one part. If clipping needs a norm and no
// earlier step gives it, a backward without updates finds it.
Trainer::Pass Trainer::learn_in_backward(const std::vector<MicroBatch>& window, double learning_rate) {
  std::optional<BackwardStep::Updates> updates;
  double norm = std::nan("");
  const auto run = [&] {
    return run_window(window, [&](const at::Tensor& loss, const MicroBatch&, bool) {
      norm = backward_step_->run(updates, [&] {
        if (loss.requires_grad()) loss.backward();
      });
    });
  };
  std::optional<double> scale = arguments().max_grad_norm > 0 ? previous_scale() : 1.0;
  if (!scale) {
    run();
    accepts(norm, "gradient norm", all_of(window));
    scale = optim::clip_scale(norm, arguments().max_grad_norm);
  }
  updates = {learning_rate, *scale, [&](const tensor::Parameter& p, bool finite) {
               setup_.model->check_files();
               if (finite || arguments().on_nonfinite == config::OnNonfinite::proceed) return;
               throw Error(Status::invalid_argument,
                           fmt::format("the gradient of {} in step {} is not finite (dataset rows {}); {}",
                                       p.name, state_.global_step + 1, row_list(all_of(window)),
                                       advice(*setup_.model, *method_, state_.global_step,
                                              arguments().learning_rate)),
                           "on_nonfinite");
             }};
  Pass pass = run();
  pass.norm = norm;
  return pass;
}

// clip_by_previous_norm: returns its scale; none: no earlier step has a finite norm.
std::optional<double> Trainer::previous_scale() const {
  if (!arguments().clip_by_previous_norm || state_.global_step <= now_.skipped ||
      !std::isfinite(now_.grad_norm))
    return std::nullopt;
  return optim::clip_scale(now_.grad_norm, arguments().max_grad_norm);
}

double Trainer::grad_scale(double norm) const {
  return previous_scale().value_or(optim::clip_scale(norm, arguments().max_grad_norm));
}

double Trainer::grad_norm() const {
  const tensor::Timed timed(tensor::Part::optimizer);
  return optim::l2_norm(optim::gradients(parameters_));
}

// A copy of a weight in the compute type saves conversions. With many tokens, which take more memory than
// few, a conversion is a small part of the time: if layers are recomputed and one micro-batch makes the step,
// a copy is kept only while its layer computes.
void Trainer::begin_collecting(const std::vector<MicroBatch>& window) {
  using Copies = Gradients::Copies;
  constexpr int64_t kMany = 2048;
  const bool again = arguments().recompute.form != config::Recomputed::nothing;
  const bool brief = again && window.size() == 1 && window[0].elements >= kMany;
  gradients_.begin_step(backward_step_ || !arguments().levers.weight_copies ? Copies::none
                        : brief                                             ? Copies::brief
                                                                            : Copies::kept);
  for (const auto& adapter : setup_.model->adapters().all()) adapter->keep_copies_as_model();
  // The head belongs to no layer, so its copy would be kept.
  const model::Model& model = *setup_.model;
  tensor::Parameter& head = *model.head_with(setup_.model->adapters().in_use()).weight;
  if (brief && head.has_gradient()) head.keep_copies(false);
}

Trainer::Pass Trainer::run_window(const std::vector<MicroBatch>& window, const Backward& backward) {
  begin_collecting(window);
  const at::AutoGradMode with_graph(true);
  const Divisors divisors = method_->divisors(window, true);
  const memory::Offload::Pass leaving(offloading_ ? &offloading_->policy() : nullptr);
  Pass pass;
  pass.loss_since_log = now_.loss_since_log;
  pass.means = now_.means;
  pass.num_tokens = now_.num_tokens;
  pass.tokens_seen = state_.num_input_tokens_seen;
  pass.flos = state_.total_flos;
  for (const MicroBatch& batch : window) {
    pass.num_tokens += batch.counted_tokens;
    pass.tokens_seen += tokens_seen(batch);
    if (pass.skipped) continue;
    check_positions(batch, setup_.model->config());
    const RunPosition place{state_.global_step, &batch - window.data()};
    const std::vector<MicroBatch> parts = parts_of(batch, arguments().max_tokens_per_pass);
    const std::unique_ptr<BatchLoss> of_batch = method_->loss(batch, parts, divisors);
    if (parts.size() > 1) gradients_.begin_parts();
    float loss = 0;
    each_part(
        parts, *of_batch, [&](const MicroBatch& part) { return forward(part, place); },
        [&](const at::Tensor& share, bool last) {
          loss += share.item<float>();
          pass.skipped = !accepts(loss, "loss", {&batch});
          if (!pass.skipped) backward(share, batch, last);
          return !pass.skipped;
        });
    pass.loss += loss;
    if (pass.skipped) continue;
    // logging_nan_inf_filter: such a loss counts as the mean so far (Trainer._inner_training_loop)
    pass.loss_since_log +=
        arguments().logging_nan_inf_filter && !std::isfinite(loss)
            ? pass.loss_since_log / static_cast<float>(1 + state_.global_step - now_.last_logged_step)
            : loss;
    pass.means.add(of_batch->metrics());
    pass.own_means.add(of_batch->metrics());
    pass.shared.add(batch);
    pass.flos += flos_per_token_ * static_cast<double>(batch.elements);
  }
  return pass;
}

model::Output Trainer::forward(const MicroBatch& batch, const std::optional<RunPosition>& training) {
  if (offloading_ && at::GradMode::is_enabled()) offloading_->need_room(batch, *method_);
  const tensor::Stage stage(training ? "forward" : "evaluation");
  return method_->forward(batch, training, frozen_ ? frozen_->states(batch) : at::Tensor());
}

int64_t Trainer::tokens_seen(const MicroBatch& batch) const {
  using config::TokensSeen;
  const TokensSeen counted = arguments().tokens_seen;
  return counted == TokensSeen::no ? 0 : counted == TokensSeen::all ? batch.elements : batch.real_tokens;
}

// on_nonfinite: says whether the step learns from a window with this value. Throws if that is an error.
bool Trainer::accepts(double value, std::string_view what,
                      const std::vector<const MicroBatch*>& batches) const {
  using config::OnNonfinite;
  if (std::isfinite(value) || arguments().on_nonfinite == OnNonfinite::proceed) return true;
  const std::string line =
      fmt::format("the {} of step {} is {} (dataset rows {}); the weights are as before the step; {}", what,
                  state_.global_step + 1, std::isnan(value) ? std::nan("") : value, row_list(batches),
                  advice(*setup_.model, *method_, state_.global_step, arguments().learning_rate));
  if (arguments().on_nonfinite == OnNonfinite::error)
    throw Error(Status::invalid_argument, line, "on_nonfinite");
  if (setup_.log != nullptr) setup_.log->warning("train", "on_nonfinite skip: {}", line);
  return false;
}

void Trainer::after_update(const Pass& pass, double learning_rate) {
  now_.training_mode = true;
  batches_.window_done();
  ++now_.updates_in_epoch;
  if (pass.skipped) {
    ++now_.skipped;
    ++now_.skipped_since_log;
  } else {
    now_.loss_since_log = pass.loss_since_log;
    now_.means = pass.means;
    now_.grad_norm = pass.norm;
  }
  shared_.add(pass.shared);
  now_.shared_since_log += pass.shared.count();
  now_.num_tokens = pass.num_tokens;
  now_.learning_rate = learning_rate;
  state_.num_input_tokens_seen = pass.tokens_seen;
  state_.total_flos = pass.flos;
  ++state_.global_step;
  method_->updated(state_.global_step);
  state_.epoch = static_cast<double>(batches_.epoch()) + static_cast<double>(batches_.done_in_epoch()) /
                                                             static_cast<double>(steps_.batches_per_epoch);
  now_.in_epoch = true;
  now_.epoch_complete = now_.updates_in_epoch >= steps_.updates_per_epoch;

  const int64_t done = state_.global_step;
  const bool last = done >= steps_.max_steps;
  now_.log_due =
      (done == 1 && arguments().logging_first_step) ||
      (arguments().logging_strategy == config::Strategy::steps && done % steps_.logging_steps == 0);
  if (arguments().save_strategy == config::Strategy::steps && (done % steps_.save_steps == 0 || last)) {
    now_.save_due = true;
  }
  if (arguments().eval_strategy == config::Strategy::steps && (done % steps_.eval_steps == 0 || last) &&
      arguments().eval_delay <= static_cast<double>(done)) {
    now_.evaluation_due = true;
  }
  stop_ = stop_ || last;

  metrics_ = {};
  metrics_.set("loss", static_cast<double>(pass.loss));
  metrics_.set("grad_norm", pass.norm);
  metrics_.set("learning_rate", learning_rate);
  if (pass.skipped) metrics_.set_integer("skipped_steps", 1);
  pass.own_means.write(metrics_, "");
  if (pass.shared.count() > 0) metrics_.set_integer("shared_tokens", pass.shared.count());
  metrics_.set("num_tokens", static_cast<double>(now_.num_tokens));
  metrics_.set("epoch", state_.epoch);
  metrics_.set_integer("step", done);
  emit(engine::EventKind::step, metrics_);
}

}  // namespace trl::train
