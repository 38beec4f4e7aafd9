// Completions of a generation: who writes them, how long they may be, and where they end.
#include "base/error.h"
#include "engine/error_capture.h"
#include "run/rollout/rollout_rows.h"

namespace trl::run {

CompletionSource* RolloutRows::writer() {
  if (parts_.replay) return &replayed_;
  if (parts_.host.function) return &written_;
  return parts_.server.get();
}

int32_t RolloutRows::sync(engine::ErrorSink& error) noexcept {
  return engine::answer(error, [&] {
    CompletionSource* const own = by_ == AnswersOf::rows ? nullptr : writer();
    if (own != nullptr) own->sync(step_);
    return Status::ok;
  });
}

int32_t RolloutRows::complete(uint64_t first_stream, std::vector<engine::Completion>* completions,
                              engine::ErrorSink& error) noexcept {
  return engine::answer(error, [&] {
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

}  // namespace trl::run
