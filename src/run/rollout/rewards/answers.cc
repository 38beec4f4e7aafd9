#include "run/rollout/rewards/answers.h"

namespace trl::run {

namespace {

bool is_conversation(const base::Json& row) {
  const auto prompt = row.find("prompt");
  return prompt != row.end() && prompt->is_array();
}

}  // namespace

base::Json reward_columns(const base::Json& row) {
  base::Json columns = row;
  for (const char* name : {"prompt", "completion_ids"}) columns.erase(name);
  return columns;
}

Answers::Answers(const reward::Moment& moment, const engine::PromptRows& prompts,
                 std::span<const std::shared_ptr<const base::Json>> rows,
                 std::span<const engine::Completion> completions, const Tokenizer& tokenizer,
                 std::span<const base::Json> conversations)
    : moment_(moment) {
  // Views refer to these, which must not move.
  columns_.reserve(completions.size());
  texts_.reserve(completions.size());
  messages_.reserve(completions.size());
  for (size_t i = 0; i < completions.size(); ++i) {
    if (i == 0 || rows[i] != rows[i - 1]) columns_.push_back(reward_columns(*rows[i]));
    texts_.push_back(text_of(tokenizer.get(), completions[i].ids, true));
    reward::Completion& item = items_.emplace_back();
    item.text = texts_.back();
    item.ids = completions[i].ids;
    item.prompt_ids = prompts.ids[i];
    item.row = prompts.row_ids[i];
    item.columns = &columns_.back();
    const auto prompt = rows[i]->find("prompt");
    item.prompt = prompt == rows[i]->end() ? nullptr : &*prompt;
    if (!is_conversation(*rows[i])) continue;
    const base::Json answer = {{"role", "assistant"}, {"content", texts_.back()}};
    messages_.push_back(conversations.empty() ? base::Json::array({answer}) : conversations[i]);
    item.messages = &messages_.back();
  }
}

}  // namespace trl::run
