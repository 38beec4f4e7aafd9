#include "run/rollout/rollout_rows.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "engine/error_capture.h"
#include "run/rollout/replayed_run.h"

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

RolloutRows::RolloutRows(std::string_view mode, std::shared_ptr<Prompts> prompts, RolloutParts& parts)
    : mode_(mode),
      prompts_(std::move(prompts)),
      parts_(parts),
      replayed_(parts.replay.get()),
      written_(parts.host, parts.tools.get()) {}

int32_t RolloutRows::start_epoch(int64_t epoch, int64_t generation, engine::ErrorSink& error) noexcept {
  return engine::answer(error, [&] {
    parts_.log->start(mode_);
    prompts_->start(epoch, generation);
    return Status::ok;
  });
}

int32_t RolloutRows::check_run(const engine::RunAhead& run, engine::ErrorSink& error) noexcept {
  return engine::answer(error, [&] {
    if (!parts_.replay) return Status::ok;
    check_replay(
        {*parts_.replay, *prompts_, parts_.eval_prompts.get(), parts_.choice ? &*parts_.choice : nullptr,
         parts_.made[mode_], parts_.schedule_needs_length},
        run);
    return Status::ok;
  });
}

// The prompts that a recorded run ended up with are those of the file: nothing is drawn again.
void RolloutRows::take_recorded_prompts() {
  const std::vector<int64_t>& own = prompts_->rows().row_ids;
  const std::vector<std::optional<int64_t>> recorded = parts_.replay->next_prompts(std::ssize(own));
  for (size_t first = 0; first + parts_.group <= recorded.size(); first += parts_.group) {
    const std::optional<int64_t> row = recorded[first];
    if (!row || *row == own[first]) continue;
    std::vector<size_t> places(parts_.group);
    std::iota(places.begin(), places.end(), first);
    if (!prompts_->give(places, *row))
      fail_key("replay_rollouts",
               "replay_rollouts: {}: row is {}, and the dataset has no prompt there: give the dataset of the "
               "recorded run",
               Place{parts_.replay->path(), parts_.replay->place() + static_cast<int64_t>(first) + 1}, *row);
  }
}

int32_t RolloutRows::next(int64_t step, const engine::PromptRows** prompts,
                          engine::ErrorSink& error) noexcept {
  return engine::answer(error, [&] {
    step_ = step;
    if (!prompts_->next()) return Status::end;
    redrawn_.clear();
    draws_.clear();
    extras_.clear();
    parts_.rewards->forget();
    if (replays_resampled()) take_recorded_prompts();
    if (parts_.choice) by_ = mode_ == "train" ? parts_.choice->next() : AnswersOf::rows;
    rows_ = prompts_->rows();
    rows_.for_teacher = by_ == AnswersOf::teacher;
    columns_ = prompts_->columns();
    if (parts_.tools) parts_.tools->start(mode_, step_, rows_, columns_);
    *prompts = &rows_;
    return Status::ok;
  });
}

CompletionSource* RolloutRows::writer() {
  if (parts_.replay) return &replayed_;
  if (parts_.host.function) return &written_;
  return parts_.server.get();
}

int32_t RolloutRows::complete(uint64_t first_stream, std::vector<engine::Completion>* completions,
                              engine::ErrorSink& error) noexcept {
  return engine::answer(error, [&] {
    if (completions == nullptr) {
      CompletionSource* const own = by_ == AnswersOf::rows ? nullptr : writer();
      if (own != nullptr) own->sync(step_);
      return Status::ok;
    }
    written_.clear();
    replayed_.clear();
    finished_ = 0;
    left_.assign(parts_.apart ? written_prompts().ids.size() / parts_.group : 0, parts_.group);
    texts_.clear();
    if (!parts_.stops[mode_].empty()) texts_.assign(written_prompts().ids.size(), new_text());
    if (by_ == AnswersOf::rows) {
      completions->clear();
      for (const std::vector<int32_t>& answer : prompts_->answers()) completions->push_back({answer});
      return Status::ok;
    }
    CompletionSource* const own = writer();
    if (own == nullptr) return Status::end;
    *completions =
        own->write({mode_, step_, parts_.made[mode_], first_stream, written_prompts(), written_columns()});
    if (replays_resampled()) draws_ = replayed_.resampled();
    check_lengths(*completions, *own);
    find_stops(*completions);
    return Status::ok;
  });
}

void RolloutRows::find_stops(std::vector<engine::Completion>& completions) {
  for (size_t row = 0; row < completions.size() && !texts_.empty(); ++row) {
    engine::Completion& own = completions[row];
    for (size_t t = 0; t < own.ids.size(); ++t) {
      if (!own.counts(t) && (t == 0 || own.counts(t - 1))) texts_[row] = new_text();
      own.stopped = own.counts(t) && texts_[row].add(own.ids[t]);
    }
  }
}

void RolloutRows::check_lengths(std::span<const engine::Completion> completions,
                                const CompletionSource& from) const {
  const engine::PromptRows& prompts = written_prompts();
  for (size_t i = 0; i < completions.size() && parts_.positions > 0; ++i) {
    const int64_t length = std::ssize(prompts.ids[i]) + std::ssize(completions[i].ids);
    if (length <= parts_.positions) continue;
    const Place place = Place::of_row(prompts.row_ids[i]);
    const std::string message = fmt::format(
        "{}: completion {} of {} and its prompt, {}, have {} tokens, and the model has learned {} "
        "positions: give shorter completions",
        from.name(), i, completions.size(), place, length, parts_.positions);
    placed(place, [&] {
      if (!from.key().empty()) fail_key(from.key(), "{}", message);
      fail(Status::invalid_argument, "{}", message);
    });
  }
}

int32_t RolloutRows::go_on(std::span<const engine::Completion> completions,
                           std::vector<engine::Continuation>* more, engine::ErrorSink& error) noexcept {
  return engine::answer(error, [&] {
    *more = parts_.tools->go_on(completions);
    for (const engine::Continuation& one : *more)
      if (!texts_.empty()) texts_[one.row] = new_text();
    return Status::ok;
  });
}

text::CompletionText RolloutRows::new_text() { return {parts_.tokenizer->get(), parts_.stops[mode_]}; }

bool RolloutRows::stops(size_t row, int32_t id) noexcept { return !texts_.empty() && texts_[row].add(id); }

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

int32_t RolloutRows::redraw(std::span<const size_t> rows, const engine::PromptRows** prompts,
                            engine::ErrorSink& error) noexcept {
  return engine::answer(error, [&] {
    prompts_->redraw(rows, parts_.group);
    redrawn_.assign(rows.begin(), rows.end());
    draws_.resize(rows_.ids.size(), 0);
    for (const size_t row : rows) ++draws_[row];
    redrawn_prompts_ = {};
    redrawn_columns_.clear();
    for (const size_t row : rows) {
      redrawn_prompts_.row_ids.push_back(rows_.row_ids[row] = prompts_->rows().row_ids[row]);
      redrawn_prompts_.ids.push_back(rows_.ids[row] = prompts_->rows().ids[row]);
      redrawn_columns_.push_back(columns_[row] = prompts_->columns()[row]);
    }
    *prompts = &rows_;
    return Status::ok;
  });
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

int32_t RolloutRows::state(std::string_view* bytes, engine::ErrorSink& error) noexcept {
  return engine::answer(error, [&] {
    base::Json json = {{"generations", parts_.made}};
    if (parts_.choice) json["choices"] = parts_.choice->made();
    if (prompts_->redrawn() > 0) json["redrawn"] = prompts_->redrawn();
    if (parts_.replay) json["replay"] = parts_.replay->place();
    if (parts_.record) json["record"] = parts_.record->bytes();
    if (base::Json log = parts_.log->state(); !log.is_null()) json["log"] = std::move(log);
    *bytes = state_ = json.dump();
    return Status::ok;
  });
}

int32_t RolloutRows::load_state(std::string_view bytes, engine::ErrorSink& error) noexcept {
  return engine::answer(error, [&] {
    const base::Json json = base::parse_json(bytes, "the state of the rollouts");
    try {
      json.at("generations").get_to(parts_.made);
      if (parts_.choice) parts_.choice->go_to(json.at("choices"));
      prompts_->set_redrawn(json.value("redrawn", int64_t{0}));
      if (parts_.replay && json.contains("replay")) parts_.replay->go_to(json.at("replay"));
      if (parts_.record && json.contains("record")) parts_.record->go_to(json.at("record"));
      if (json.contains("log")) parts_.log->load(json.at("log"));
    } catch (const base::Json::exception& why) {
      fail(Status::format, "the state of the rollouts is damaged: {}", why.what());
    }
    return Status::ok;
  });
}

}  // namespace trl::run
