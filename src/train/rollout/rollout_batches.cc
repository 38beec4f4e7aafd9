#include "train/rollout/rollout_batches.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/json/json.h"
#include "engine/error_capture.h"
#include "loss/policy/advantages.h"
#include "tensor/parts.h"
#include "train/run_state.h"

namespace trl::train {

namespace {

// Streams of draws of evaluations begin here, so that every pass draws the same.
constexpr uint64_t kEvaluationStreams = uint64_t{1} << 40;
// The same for prompts that are drawn in place of others (resample_zero_std).
constexpr uint64_t kRedrawnStreams = uint64_t{1} << 41;

std::vector<std::pair<std::string, double>> values_of(const Means& means) {
  std::vector<std::pair<std::string, double>> values;
  for (const Means::Sum& own : means.sums())
    values.emplace_back(own.name, own.count > 0 ? own.total / static_cast<double>(own.count) : std::nan(""));
  return values;
}

std::vector<size_t> numbers(size_t count) {
  std::vector<size_t> all(count);
  std::iota(all.begin(), all.end(), size_t{0});
  return all;
}

}  // namespace

WritingTimes Writers::times() const {
  WritingTimes sum;
  for (const CompletionWriter* writer : {model.get(), teacher.get()}) {
    if (writer == nullptr) continue;
    sum.all += writer->times().all;
    sum.tail += writer->times().tail;
    sum.copies += writer->times().copies;
  }
  return sum;
}

RolloutBatches::RolloutBatches(const Setup& setup)
    : setup_(setup), source_(setup.training ? *setup.spec.train : *setup.spec.eval) {}

int64_t RolloutBatches::slices() const {
  return setup_.training ? setup_.arguments.online.steps_per_generation : 1;
}

int64_t RolloutBatches::repeats() const {
  return slices() * (setup_.training ? setup_.arguments.online.num_iterations : 1);
}

int64_t RolloutBatches::batches_per_epoch() noexcept { return source_.generations_per_epoch() * repeats(); }

int32_t RolloutBatches::start_epoch(int64_t epoch, int64_t skip, std::span<const int64_t>,
                                    engine::ErrorSink&) noexcept {
  epoch_ = epoch;
  if (!setup_.training) drawn_epoch_ = -1;
  generation_ = skip / repeats();
  used_ = skip % repeats();
  rollout_.reset();
  source_positioned_ = false;
  return 0;
}

int32_t RolloutBatches::start_pass(int64_t, engine::ErrorSink& error) noexcept {
  return engine::answer(error, []() -> Status {
    fail(Status::unsupported, "rows of prompts alone have no pass: their completions are written in a step");
  });
}

int32_t RolloutBatches::next(const data::Batch** batch, engine::ErrorSink& error) noexcept {
  return engine::answer(error, [&] {
    if (drawn_epoch_ != epoch_) {
      if (!setup_.arguments.method->episodes) setup_.chance.generator.random_int64();
      drawn_epoch_ = epoch_;
    }
    if (rollout_ && used_ == repeats()) {
      rollout_.reset();
      used_ = 0;
    }
    if (!source_positioned_) position("");
    check_run();
    const bool first = !rollout_;
    if (first && !make()) return Status::end;
    if (!first && window_ > 0) forget_generated();
    window_ = 0;
    batch_ = method_->batch_of(*rollout_, slice(used_));
    batch_.ends_update = ends_update();
    if (first) {
      batch_.metrics = rollout_->metrics;
      batch_.num_tokens = setup_.training ? method_->tokens(*rollout_) : 0;
    }
    ++used_;
    *batch = &batch_;
    return Status::ok;
  });
}

void RolloutBatches::position(const std::string& state) {
  engine::ErrorCapture error;
  error.check(source_.start_epoch(epoch_, generation_, error));
  if (!state.empty()) error.check(source_.load_state(state, error));
  source_positioned_ = true;
}

void RolloutBatches::check_run() {
  if (!length_ || checked_) return;
  const int64_t done = (rollout_ ? generation_ - 1 : generation_) * repeats() + used_;
  const RunAhead ahead(setup_.arguments, *length_,
                       {.step = step_,
                        .epoch = epoch_,
                        .done_in_epoch = done,
                        .next_generation = generation_,
                        .micro_batches_of_generation = repeats(),
                        .has_evaluation = setup_.spec.eval != nullptr});
  engine::ErrorCapture error;
  error.check(source_.check_run(ahead, error));
  checked_ = true;
}

bool RolloutBatches::make() {
  engine::ErrorCapture error;
  source_positioned_ = false;  // unless all of this goes well
  const engine::PromptRows* prompts = nullptr;
  if (!error.check(source_.next(step_, &prompts, error))) return false;
  rollout_.emplace();
  const double copying_before = setup_.writers.times().copies;
  try {
    write(*prompts);
    if (draws_again()) draw_again();
    tell_copies(copying_before);
    method_->before_rewards(*rollout_);
    order_ = drawn_order();
    if (!draws_again()) {
      if (source_.rewards_are_late()) work_ahead();
      reward();
    }
    method_->after_rewards(*rollout_);
    Means logged;  // a reward may log a metric several times
    logged.add_known(rollout_->rewards.metrics);
    for (auto& metric : values_of(logged)) rollout_->metrics.push_back(std::move(metric));
    error.check(source_.scored(rollout_->completions, rollout_->rewards, rollout_->advantages, error));
  } catch (...) {
    rollout_.reset();
    throw;
  }
  source_positioned_ = true;
  ++generation_;
  ++made_;
  return true;
}

void RolloutBatches::tell_copies(double seconds_before) {
  if (setup_.spec.generator.weights.empty()) return;
  rollout_->metrics.emplace_back("generation_dtype_runtime", setup_.writers.times().copies - seconds_before);
}

void RolloutBatches::sample() {
  engine::ErrorCapture error;
  error.check(source_.start_epoch(0, 0, error));
  const engine::PromptRows* prompts = nullptr;
  if (!error.check(source_.next(step_, &prompts, error))) return;
  generation_ = 0;
  rollout_.emplace();
  write(*prompts);
  reward();
  error.check(source_.scored(rollout_->completions, rollout_->rewards, {}, error));
  rollout_.reset();
}

engine::Rewards RolloutBatches::rewards_of(std::span<const engine::Completion> completions) {
  const tensor::Timed timed(tensor::Part::reward);
  engine::ErrorCapture error;
  engine::Rewards rewards;
  error.check(source_.reward(completions, &rewards, error));
  const size_t wanted = rewards.names.size() * completions.size();
  if (rewards.values.size() != wanted || rewards.weights.size() != rewards.names.size())
    fail(Status::internal, "{} rewards for {} completions and {} functions", rewards.values.size(),
         completions.size(), rewards.names.size());
  return rewards;
}

void RolloutBatches::reward() { rollout_->rewards = rewards_of(method_->rewarded(*rollout_)); }

void RolloutBatches::work_ahead() {
  if (!work_ || window_ == 0 || used_ + window_ > repeats()) return;
  std::vector<data::Batch> window;
  for (int64_t i = 0; i < window_; ++i) window.push_back(method_->batch_of(*rollout_, slice(used_ + i)));
  work_(window);
}

void RolloutBatches::write(const engine::PromptRows& prompts) {
  rollout_->training = setup_.training;
  rollout_->epoch = epoch_;
  rollout_->prompts = prompts;
  const uint64_t before = setup_.training ? 0 : kEvaluationStreams;
  const auto number = static_cast<uint64_t>(setup_.training ? made_ : generation_);
  const config::TrainingArguments& arguments = setup_.arguments;
  const auto most = static_cast<uint64_t>(setup_.training ? arguments.online.generation_batch_size
                                                          : arguments.per_device_eval_batch_size);
  rollout_->completions = completions_of(prompts, before + number * most);
  rollout_->stated = is_stated(*rollout_);
  rollout_->exact = rollout_->stated && setup_.training && setup_.arguments.generation_exact;
  note_ends();
  // Rewards of episodes see them up to their stop token.
  if (setup_.arguments.method->episodes)
    tell_finished(method_->rewarded(*rollout_), numbers(rollout_->completions.size()));
}

void RolloutBatches::tell_finished(std::span<const engine::Completion> completions,
                                   std::span<const size_t> rows) {
  const tensor::Timed rewarding(tensor::Part::reward);
  engine::ErrorCapture error;
  error.check(source_.finished(completions, rows, error));
}

// Completions from elsewhere have no entropies. With generation_exact they are compared with nothing, as
// their own run would not have been.
bool RolloutBatches::is_stated(const Rollout& rollout) const {
  const engine::Sampling& sampling = setup_.training ? setup_.spec.sampling : setup_.spec.eval_sampling;
  const config::OnlineArguments& online = setup_.arguments.online;
  const bool asked = sampling.log_probabilities || !online.replay_rollouts.empty();
  const bool exact = setup_.training && setup_.arguments.generation_exact;
  return asked && sampling.temperature == online.loss_temperature && !rollout.prompts.for_teacher &&
         std::ranges::all_of(rollout.completions, [exact](const engine::Completion& own) {
           return (exact ? own.entropies : own.log_probabilities).size() == own.ids.size();
         });
}

// An update has changed the weights.
void RolloutBatches::forget_generated() {
  for (const char* name : {kGenerated, kGeneratedEntropy, kStated}) rollout_->token_columns.erase(name);
}

// Whoever writes the completions elsewhere gets the weights of now: it is asked for none (null). Nothing of
// it counts in another part of the step.
void RolloutBatches::sync(uint64_t first_stream) {
  const tensor::TimeParts untimed(nullptr);
  const auto begin = std::chrono::steady_clock::now();
  engine::ErrorCapture error;
  error.check(source_.complete(first_stream, nullptr, error));
  synced_ += std::chrono::steady_clock::now() - begin;
}

std::vector<engine::Completion> RolloutBatches::completions_of(const engine::PromptRows& prompts,
                                                               uint64_t first_stream) {
  sync(first_stream);
  const tensor::Timed timed(tensor::Part::generate);
  engine::ErrorCapture error;
  const auto tell = [&](std::span<const engine::Completion> completions, std::span<const size_t> rows) {
    if (!setup_.arguments.method->episodes) tell_finished(completions, rows);
  };
  std::vector<engine::Completion> completions;
  if (!error.check(source_.complete(first_stream, &completions, error))) {
    CompletionWriter& writer = prompts.for_teacher ? *setup_.writers.teacher : *setup_.writers.model;
    const engine::Sampling& sampling = setup_.training ? setup_.spec.sampling : setup_.spec.eval_sampling;
    const CompletionWriter::Watch watch{[&](size_t row, int32_t id) { return source_.stops(row, id); }, tell};
    const auto go_on = [&](std::span<const engine::Completion> so_far) {
      std::vector<engine::Continuation> more;
      error.check(source_.go_on(so_far, &more, error));
      return more;
    };
    return writer.write(prompts, sampling, first_stream, watch,
                        setup_.spec.continues ? CompletionWriter::GoOn(go_on) : nullptr);
  }
  if (completions.size() != prompts.ids.size())
    fail(Status::invalid_argument, "there are {} completions for {} prompts: give one for each",
         completions.size(), prompts.ids.size());
  tell(completions, numbers(completions.size()));
  return completions;
}

void RolloutBatches::note_ends() {
  Rollout& rollout = *rollout_;
  rollout.ended.clear();
  rollout.learned.clear();
  for (const engine::Completion& own : rollout.completions) {
    const std::vector<int32_t>& ends = setup_.spec.end_ids;
    const bool ended =
        own.stopped || (!own.ids.empty() && std::ranges::find(ends, own.ids.back()) != ends.end());
    rollout.ended.push_back(ended ? 1 : 0);
    rollout.learned.push_back(ended || !setup_.arguments.online.mask_truncated_completions ? 1 : 0);
  }
}

bool RolloutBatches::draws_again() const {
  // a file has the prompts that its run ended up with
  return setup_.training && setup_.arguments.online.resample_zero_std &&
         setup_.arguments.online.replay_rollouts.empty();
}

// As DAPO (Yu et al. 2025) samples: groups whose rewards are equal teach nothing. Groups that stay so after
// as many draws are kept.
void RolloutBatches::draw_again() {
  constexpr int kDraws = 10;
  Rollout& rollout = *rollout_;
  rollout.rewards = rewards_of(rollout.completions);
  const auto group = static_cast<size_t>(setup_.arguments.online.num_generations);
  size_t drawn = 0;
  Means metrics;  // over the draws
  metrics.add_known(rollout.rewards.metrics);
  for (int draw = 0; draw < kDraws; ++draw) {
    const loss::Rewards rewards{rollout.rewards.values, rollout.rewards.weights, group};
    std::vector<size_t> rows;
    for (const size_t equal : loss::groups_without_spread(rewards))
      for (size_t i = 0; i < group; ++i) rows.push_back(equal * group + i);
    if (rows.empty()) break;
    drawn += rows.size() / group;
    replace(rows);
    metrics.add_known(rollout.rewards.metrics);
  }
  rollout.rewards.metrics = values_of(metrics);
  note_ends();
  rollout.metrics.emplace_back("resampled_groups", static_cast<double>(drawn));
}

// Draws other prompts for these rows, with their completions and rewards, and the metrics of these alone.
void RolloutBatches::replace(const std::vector<size_t>& rows) {
  Rollout& rollout = *rollout_;
  engine::ErrorCapture error;
  const engine::PromptRows* prompts = nullptr;
  error.check(source_.redraw(rows, &prompts, error));
  rollout.prompts = *prompts;
  engine::PromptRows own;
  for (const size_t row : rows) {
    own.row_ids.push_back(prompts->row_ids[row]);
    own.ids.push_back(prompts->ids[row]);
  }
  std::vector<engine::Completion> completions = completions_of(own, kRedrawnStreams + redrawn_);
  redrawn_ += rows.size();
  const engine::Rewards rewards = rewards_of(completions);
  const size_t functions = rewards.names.size();
  for (size_t i = 0; i < rows.size(); ++i) {
    rollout.completions[rows[i]] = std::move(completions[i]);
    std::copy_n(rewards.values.begin() + static_cast<std::ptrdiff_t>(i * functions), functions,
                rollout.rewards.values.begin() + static_cast<std::ptrdiff_t>(rows[i] * functions));
  }
  rollout.rewards.metrics = rewards.metrics;
}

std::vector<int64_t> RolloutBatches::drawn_order() {
  const config::OnlineArguments& online = setup_.arguments.online;
  const int64_t rows = rollout_->rows();
  const bool shuffles = setup_.training && online.shuffle_rollouts;
  const bool episodes = setup_.arguments.method->episodes;
  base::TorchGenerator& generator = setup_.chance.generator;
  std::vector<int64_t> order;
  for (int64_t pass = 0; pass < (episodes ? online.num_iterations : 1); ++pass) {
    std::vector<int64_t> own(static_cast<size_t>(rows));
    std::iota(own.begin(), own.end(), 0);
    if (shuffles) own = episodes ? base::numpy_permutation(rows, generator) : base::randperm(rows, generator);
    order.insert(order.end(), own.begin(), own.end());
  }
  return order;
}

// In a method of episodes a pass has parts of equal size, and a micro-batch the rows of one part.
std::span<const int64_t> RolloutBatches::slice(int64_t used) const {
  const int64_t rows = rollout_->rows(), slice = used % slices();
  int64_t first = slice * (rows / slices()), end = first + rows / slices();
  if (setup_.arguments.method->episodes) {
    const int64_t parts = setup_.arguments.online.num_mini_batches, size = rows / parts;
    const int64_t of_part = slices() / parts, most = setup_.arguments.per_device_train_batch_size;
    const int64_t pass = used / slices() * rows, part = pass + slice / of_part * size;
    first = part + slice % of_part * most;
    end = std::min(first + most, part + size);
  }
  return std::span(order_).subspan(static_cast<size_t>(first), static_cast<size_t>(end - first));
}

// As Accelerate, which makes an update after each micro-batch once the loader has given its last batch.
bool RolloutBatches::ends_update() const {
  if (!setup_.arguments.method->episodes) return false;
  return generation_ == source_.generations_per_epoch() ||
         (used_ + 1) % setup_.arguments.gradient_accumulation_steps == 0;
}

int32_t RolloutBatches::state(std::string_view* bytes, engine::ErrorSink& error) noexcept {
  *bytes = {};
  if (!setup_.training) return 0;
  return engine::answer(error, [&] {
    std::string_view of_source;
    engine::ErrorCapture inner;
    inner.check(source_.state(&of_source, inner));
    base::Json json = {{"chance", setup_.chance.generator.state()},
                       {"drawn_epoch", drawn_epoch_},
                       {"generation", generation_},
                       {"made", made_},
                       {"used", used_},
                       {"redrawn", redrawn_},
                       {"source", std::string(of_source)},
                       {"order", order_}};
    std::string text;
    if (rollout_) text = bytes_of(*rollout_);
    json["rollout"] = base::Json::binary({text.begin(), text.end()});
    state_.clear();
    base::Json::to_cbor(json, state_);
    *bytes = state_;
    return Status::ok;
  });
}

int32_t RolloutBatches::load_state(std::string_view bytes, engine::ErrorSink& error) noexcept {
  return engine::answer(error, [&] {
    std::string of_source;
    try {
      const base::Json json = base::Json::from_cbor(bytes);
      setup_.chance.generator.load_state(json.at("chance").get<std::string>());
      json.at("drawn_epoch").get_to(drawn_epoch_);
      json.at("made").get_to(made_);
      redrawn_ = json.value("redrawn", uint64_t{0});
      json.at("source").get_to(of_source);
      json.at("order").get_to(order_);
      rollout_.reset();
      const std::vector<uint8_t>& kept = json.at("rollout").get_binary();
      if (!kept.empty() && drawn_epoch_ == epoch_) {
        json.at("generation").get_to(generation_);
        json.at("used").get_to(used_);
        rollout_ = rollout_of({reinterpret_cast<const char*>(kept.data()), kept.size()});
      }
    } catch (const base::Json::exception& why) {
      fail(Status::format, "the state of the rollouts is damaged: {}", why.what());
    }
    position(of_source);  // an evaluation before the next generation continues from this state
    return Status::ok;
  });
}

Rollouts::Rollouts(const config::TrainingArguments& arguments, const engine::RolloutSpec& spec,
                   std::unique_ptr<CompletionWriter> writer)
    : arguments_(arguments),
      spec_(spec),
      writers_{std::move(writer), nullptr},
      chance_(static_cast<uint64_t>(arguments.seed)),
      train_({arguments_, spec_, writers_, chance_}) {
  if (spec.eval != nullptr)
    eval_.emplace(RolloutBatches::Setup{arguments_, spec_, writers_, chance_, /*training=*/false});
}

void Rollouts::say(base::LogSink& log) const {
  const WritingTimes times = writers_.times();
  if (times.all == 0) return;
  log.info("train",
           "completions were written in {:.1f} s; for {:.1f} s of them ({:.1f} %) only the longest was left",
           times.all, times.tail, 100 * times.tail / times.all);
  if (const std::string& type = spec_.generator.weights; !type.empty())
    log.info("train", "generation_dtype: for {:.1f} s of them copies in {} were made of the changed weights",
             times.copies, type);
}

bool Rollouts::samples_after(int64_t step, int64_t max_steps) const {
  const int64_t distance = steps_between_samples(arguments_, max_steps);
  return eval_ && distance > 0 && (step - 1) % distance == 0;
}

void Rollouts::set_step(int64_t step, int64_t window) {
  train_.set_step(step, window);
  if (eval_) eval_->set_step(step);
}

void Rollouts::learn_by(RolloutMethod& method) {
  if (const model::Model* const teacher = method.teacher())
    writers_.teacher = std::make_unique<CompletionWriter>(*teacher, spec_.generator);
  train_.learn_by(method);
  if (eval_) eval_->learn_by(method);
}

}  // namespace trl::train
