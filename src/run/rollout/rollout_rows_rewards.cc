// Rewards of the completions of a generation.
#include <algorithm>
#include <numeric>

#include "engine/error_capture.h"
#include "run/rollout/rollout_rows.h"

namespace trl::run {

namespace {

// Pads each completion to the longest of those whose rows differ by a multiple of `distance`.
std::vector<engine::Completion> padded(std::span<const engine::Completion> completions, int32_t pad,
                                       size_t distance) {
  std::vector<engine::Completion> out(completions.begin(), completions.end());
  std::vector<size_t> longest(distance, 0);
  for (size_t row = 0; row < out.size(); ++row)
    longest[row % distance] = std::max(longest[row % distance], out[row].ids.size());
  for (size_t row = 0; row < out.size(); ++row) out[row].ids.resize(longest[row % distance], pad);
  return out;
}

}  // namespace

int32_t RolloutRows::finished(std::span<const engine::Completion> completions, std::span<const size_t> rows,
                              engine::ErrorSink& error) noexcept {
  return engine::answer(error, [&] {
    finished_ += rows.size();
    if (by_ == AnswersOf::rows) return Status::ok;
    const bool all = finished_ == completions.size();
    if (asks_by_group()) {
      if (const std::vector<size_t> whole = whole_groups(rows); !whole.empty())
        begin_rewards(completions, whole);
    } else if (all) {
      std::vector<size_t> places(completions.size());
      std::iota(places.begin(), places.end(), size_t{0});
      begin_rewards(completions, places);
    }
    return Status::ok;
  });
}

// Rows of equal prompts are finished together, whatever groups they are of.
std::vector<size_t> RolloutRows::whole_groups(std::span<const size_t> rows) {
  if (left_.empty()) return {rows.begin(), rows.end()};
  std::vector<size_t> groups, whole;
  for (const size_t row : rows)
    if (const size_t group = row % left_.size(); --left_[group] == 0) groups.push_back(group);
  for (size_t i = 0; i < parts_.group; ++i)
    for (const size_t group : groups) whole.push_back(group + i * left_.size());
  return whole;
}

std::span<const engine::Completion> RolloutRows::rewarded(std::span<const engine::Completion> completions) {
  if (!parts_.pad) return completions;
  return padded_ = padded(completions, *parts_.pad, distance(completions.size()));
}

void RolloutRows::begin_rewards(std::span<const engine::Completion> completions,
                                std::span<const size_t> rows) {
  const std::span<const base::Json> talks =
      parts_.tools ? parts_.tools->conversations() : std::span<const base::Json>();
  engine::PromptRows prompts;
  RowColumns columns;
  std::vector<engine::Completion> own;
  std::vector<base::Json> conversations;
  for (const size_t row : rows) {
    prompts.row_ids.push_back(written_prompts().row_ids[row]);
    prompts.ids.push_back(written_prompts().ids[row]);
    columns.push_back(written_columns()[row]);
    own.push_back(completions[row]);
    if (!talks.empty()) conversations.push_back(talks[row]);
  }
  if (parts_.pad) own = padded(own, *parts_.pad, distance(own.size()));
  const Answers answers(reward::Moment{mode_, step_}, prompts, columns, own, *parts_.tokenizer,
                        conversations);
  parts_.rewards->begin(answers, rows, replayed_.rows());
}

int32_t RolloutRows::reward(std::span<const engine::Completion> completions, engine::Rewards* rewards,
                            engine::ErrorSink& error) noexcept {
  return engine::answer(error, [&] {
    completions = rewarded(completions);
    answers_.emplace(reward::Moment{mode_, step_}, written_prompts(), written_columns(), completions,
                     *parts_.tokenizer,
                     parts_.tools ? parts_.tools->conversations() : std::span<const base::Json>());
    *rewards = parts_.rewards->score(*answers_, replayed_.rows());
    keep_extras();
    if (const int64_t batches = prompts_->generations(); mode_ == "eval")
      parts_.passes->add(*rewards, batches, prompts_->completions(0, batches));
    if (replays_resampled()) {
      const int64_t rows = std::reduce(draws_.begin(), draws_.end());
      rewards->metrics.emplace_back("resampled_groups",
                                    static_cast<double>(rows) / static_cast<double>(parts_.group));
    }
    if (parts_.tools) {
      const auto of_tools = parts_.tools->metrics();
      rewards->metrics.insert(rewards->metrics.end(), of_tools.begin(), of_tools.end());
    }
    written_.add_metrics(*rewards);
    return Status::ok;
  });
}

void RolloutRows::keep_extras() {
  if (redrawn_.empty()) {
    extras_ = parts_.rewards->extras();
    return;
  }
  for (auto& [name, column] : extras_)
    for (const size_t row : redrawn_) column[row] = nullptr;
  for (const auto& [name, values] : parts_.rewards->extras()) {
    extras_[name].resize(rows_.ids.size());
    for (size_t i = 0; i < values.size(); ++i) extras_[name][redrawn_[i]] = values[i];
  }
}

int32_t RolloutRows::scored(std::span<const engine::Completion> completions, const engine::Rewards& rewards,
                            std::span<const float> advantages, engine::ErrorSink& error) noexcept {
  return engine::answer(error, [&] {
    if (by_ == AnswersOf::rows) return Status::ok;
    if (parts_.record) parts_.record->add(mode_, parts_.made[mode_], rows_, completions, rewards, draws_);
    ++parts_.made[mode_];
    if (!redrawn_.empty())
      answers_.emplace(reward::Moment{mode_, step_}, rows_, columns_, completions, *parts_.tokenizer);
    reward::Columns extras = extras_;
    written_.add_extras(completions.size(), extras);
    parts_.log->add(mode_, *answers_, rewards, extras, advantages);
    answers_.reset();
    return Status::ok;
  });
}

}  // namespace trl::run
