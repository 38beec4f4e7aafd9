// Makes a generation: its completions, their rewards, and the order of its rows.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "engine/error_capture.h"
#include "loss/policy/advantages.h"
#include "tensor/parts.h"
#include "train/rollout/rollout_batches.h"
#include "train/run/run_state.h"

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
  const engine::Sampling& sampling = setup_.training ? setup_.spec.sampling : setup_.spec.eval_sampling;
  rollout_->tempered = sampling.temperature == arguments.online.loss_temperature;
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
  return asked && rollout.tempered && !rollout.prompts.for_teacher &&
         std::ranges::all_of(rollout.completions, [exact](const engine::Completion& own) {
           return (exact ? own.entropies : own.log_probabilities).size() == own.ids.size();
         });
}

// An update has changed the weights.
void RolloutBatches::forget_generated() {
  for (const char* name : {kGenerated, kGeneratedEntropy, kStated}) rollout_->token_columns.erase(name);
}

// Nothing of it counts in another part of the step.
void RolloutBatches::sync() {
  const tensor::TimeParts untimed(nullptr);
  const auto begin = std::chrono::steady_clock::now();
  engine::ErrorCapture error;
  error.check(source_.sync(error));
  synced_ += std::chrono::steady_clock::now() - begin;
}

std::vector<engine::Completion> RolloutBatches::completions_of(const engine::PromptRows& prompts,
                                                               uint64_t first_stream) {
  sync();
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

}  // namespace trl::train
