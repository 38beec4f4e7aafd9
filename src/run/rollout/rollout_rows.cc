#include "run/rollout/rollout_rows.h"

#include <algorithm>

#include "base/error.h"
#include "engine/error_capture.h"

namespace trl::run {

namespace {

std::vector<engine::Completion> padded(std::span<const engine::Completion> completions, int32_t pad) {
  std::vector<engine::Completion> out(completions.begin(), completions.end());
  size_t longest = 0;
  for (const engine::Completion& own : out) longest = std::max(longest, own.ids.size());
  for (engine::Completion& own : out) own.ids.resize(longest, pad);
  return out;
}

}  // namespace

RolloutRows::RolloutRows(std::string_view mode, std::shared_ptr<Prompts> prompts, RolloutParts& parts)
    : mode_(mode), prompts_(std::move(prompts)), parts_(parts) {}

int32_t RolloutRows::start_epoch(int64_t epoch, int64_t generation, engine::ErrorSink& error) noexcept {
  return engine::answer(error, [&] {
    parts_.rewards->check();
    parts_.passes->check(parts_.rewards->names());
    parts_.log->start(mode_);
    prompts_->start(epoch, generation);
    return Status::ok;
  });
}

int32_t RolloutRows::next(int64_t step, const engine::PromptRows** prompts,
                          engine::ErrorSink& error) noexcept {
  return engine::answer(error, [&] {
    step_ = step;
    if (!prompts_->next()) return Status::end;
    *prompts = &prompts_->rows();
    return Status::ok;
  });
}

int32_t RolloutRows::complete(std::vector<engine::Completion>* completions,
                              engine::ErrorSink& error) noexcept {
  return engine::answer(error, [&] {
    columns_ = prompts_->columns();
    written_.reset();
    if (parts_.host && !parts_.replay) {
      write_by_host(*completions);
      return Status::ok;
    }
    if (!parts_.replay) return Status::end;
    replayed_ = parts_.replay->take(mode_, parts_.made[mode_], prompts_->rows());
    completions->clear();
    for (const ReplayedRow& row : replayed_) completions->push_back(row.completion);
    return Status::ok;
  });
}

void RolloutRows::write_by_host(std::vector<engine::Completion>& completions) {
  const engine::PromptRows& prompts = prompts_->rows();
  std::vector<HostRow> rows;
  for (size_t i = 0; i < prompts.ids.size(); ++i) {
    HostRow& row = rows.emplace_back();
    row.row = prompts.row_ids[i];
    row.columns = *columns_[i];
    row.prompt = row.columns.value("prompt", base::Json());
    row.columns.erase("prompt");
    row.prompt_ids = prompts.ids[i];
  }
  const auto rollout = std::make_shared<HostRollout>(mode_, step_, std::move(rows));
  parts_.host(rollout);
  written_ = rollout;
  completions.clear();
  for (size_t i = 0; i < rollout->rows().size(); ++i) {
    const HostRow& row = rollout->rows()[i];
    if (!row.completion)
      fail(Status::callback, "the host's rollout set no completion for row {} of {}: set each of them", i,
           rollout->size());
    completions.push_back(*row.completion);
    base::Json all = row.columns;
    all["prompt"] = row.prompt;
    columns_[i] = std::make_shared<const base::Json>(std::move(all));
  }
}

int32_t RolloutRows::reward(std::span<const engine::Completion> completions, engine::Rewards* rewards,
                            engine::ErrorSink& error) noexcept {
  return engine::answer(error, [&] {
    if (parts_.pad) completions = padded_ = padded(completions, *parts_.pad);
    answers_.emplace(reward::Moment{mode_, step_}, prompts_->rows(), columns_, completions,
                     *parts_.tokenizer);
    *rewards = parts_.rewards->score(*answers_, replayed_);
    if (mode_ == "eval") parts_.passes->add(*rewards, prompts_->generations(), prompts_->count());
    if (!written_) return Status::ok;
    const auto& metrics = written_->metrics();
    rewards->metrics.insert(rewards->metrics.end(), metrics.begin(), metrics.end());
    return Status::ok;
  });
}

int32_t RolloutRows::scored(std::span<const engine::Completion> completions, const engine::Rewards& rewards,
                            std::span<const float> advantages, engine::ErrorSink& error) noexcept {
  return engine::answer(error, [&] {
    if (parts_.record) parts_.record->add(mode_, parts_.made[mode_], prompts_->rows(), completions, rewards);
    ++parts_.made[mode_];
    reward::Columns extras = parts_.rewards->extras();
    if (written_) extras.merge(written_->extras());
    parts_.log->add(mode_, *answers_, rewards, extras, advantages);
    answers_.reset();
    return Status::ok;
  });
}

int32_t RolloutRows::state(std::string_view* bytes, engine::ErrorSink& error) noexcept {
  return engine::answer(error, [&] {
    base::Json json = {{"generations", parts_.made}};
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
      json.at("generations").get_to(parts_.made);
      if (parts_.replay && json.contains("replay")) parts_.replay->go_to(json.at("replay"));
      if (parts_.record && json.contains("record")) parts_.record->go_to(json.at("record"));
    } catch (const base::Json::exception& why) {
      fail(Status::format, "the state of the rollouts is damaged: {}", why.what());
    }
    return Status::ok;
  });
}

}  // namespace trl::run
