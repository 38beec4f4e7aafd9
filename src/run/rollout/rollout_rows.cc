#include "run/rollout/rollout_rows.h"

#include "base/error.h"
#include "engine/error_capture.h"

namespace trl::run {

RolloutRows::RolloutRows(std::string_view mode, std::shared_ptr<Prompts> prompts, RolloutParts& parts)
    : mode_(mode), prompts_(std::move(prompts)), parts_(parts) {}

int32_t RolloutRows::start_epoch(int64_t epoch, int64_t generation, engine::ErrorSink& error) noexcept {
  return engine::answer(error, [&] {
    prompts_->start(epoch, generation);
    return Status::ok;
  });
}

int32_t RolloutRows::next(const engine::PromptRows** prompts, engine::ErrorSink& error) noexcept {
  return engine::answer(error, [&] {
    if (!prompts_->next()) return Status::end;
    *prompts = &prompts_->rows();
    return Status::ok;
  });
}

int32_t RolloutRows::complete(std::vector<engine::Completion>* completions,
                              engine::ErrorSink& error) noexcept {
  return engine::answer(error, [&] {
    if (!parts_.replay) return Status::end;
    replayed_ = parts_.replay->take(mode_, made_, prompts_->rows());
    completions->clear();
    for (const ReplayedRow& row : replayed_) completions->push_back(row.completion);
    return Status::ok;
  });
}

int32_t RolloutRows::reward(std::span<const engine::Completion> completions, engine::Rewards* rewards,
                            engine::ErrorSink& error) noexcept {
  return engine::answer(error, [&] {
    const Answers answers(mode_, prompts_->columns(), completions, *parts_.tokenizer);
    *rewards = parts_.rewards->score(answers, replayed_);
    return Status::ok;
  });
}

int32_t RolloutRows::scored(std::span<const engine::Completion> completions, const engine::Rewards& rewards,
                            std::span<const float>, engine::ErrorSink& error) noexcept {
  return engine::answer(error, [&] {
    if (parts_.record) parts_.record->add(mode_, made_, prompts_->rows(), completions, rewards);
    ++made_;
    return Status::ok;
  });
}

int32_t RolloutRows::state(std::string_view* bytes, engine::ErrorSink& error) noexcept {
  return engine::answer(error, [&] {
    base::Json json = {{"generations", made_}};
    if (parts_.replay) json["replay"] = parts_.replay->place();
    if (parts_.record) json["record"] = parts_.record->bytes();
    *bytes = state_ = json.dump();
    return Status::ok;
  });
}

int32_t RolloutRows::load_state(std::string_view bytes, engine::ErrorSink& error) noexcept {
  return engine::answer(error, [&] {
    const base::Json json = base::parse_json(bytes, "the state of the rollouts");
    try {
      json.at("generations").get_to(made_);
      if (parts_.replay && json.contains("replay")) parts_.replay->go_to(json.at("replay"));
      if (parts_.record && json.contains("record")) parts_.record->go_to(json.at("record"));
    } catch (const base::Json::exception& why) {
      fail(Status::format, "the state of the rollouts is damaged: {}", why.what());
    }
    return Status::ok;
  });
}

}  // namespace trl::run
