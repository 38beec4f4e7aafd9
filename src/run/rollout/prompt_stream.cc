#include "run/rollout/prompt_stream.h"

#include <algorithm>

namespace trl::run {

// Counts the tokens of a prompt with its completion, or that of its row if that is longer.
int64_t PromptStream::length(const data::PromptExample& row) const {
  return std::ssize(row.prompt_ids) + std::max(completion_, std::ssize(row.completion_ids));
}

// A prompt keeps one token at least.
int64_t PromptStream::longest_row() {
  int64_t whole = 0;
  for (int64_t row = 0; row < prompts_->count(); ++row)
    whole = std::max(whole, length(prompts_->prompt(row)));
  return most_ ? std::min(whole, std::max(*most_, completion_ + 1)) : whole;
}

std::optional<data::LongRow> PromptStream::longer_than(int64_t tokens) {
  for (int64_t row = 0; row < prompts_->count(); ++row) {
    const data::PromptExample prompt = prompts_->prompt(row);
    if (length(prompt) > tokens) return data::LongRow{{prompt.source_row}, length(prompt)};
  }
  return std::nullopt;
}

}  // namespace trl::run
