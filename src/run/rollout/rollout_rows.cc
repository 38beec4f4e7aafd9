#include "run/rollout/rollout_rows.h"

#include <numeric>

#include "base/error.h"
#include "engine/error_capture.h"
#include "run/rollout/replayed_run.h"

namespace trl::run {

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
