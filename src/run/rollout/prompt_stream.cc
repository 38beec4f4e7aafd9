#include "run/rollout/prompt_stream.h"

#include <algorithm>

namespace trl::run {

// A prompt keeps one token at least.
int64_t PromptStream::longest_row() {
  const int64_t whole = prompts_->longest() + completion_;
  return most_ ? std::min(whole, std::max(*most_, completion_ + 1)) : whole;
}

std::optional<data::LongRow> PromptStream::longer_than(int64_t tokens) {
  for (int64_t row = 0; row < prompts_->count(); ++row) {
    const data::PromptExample prompt = prompts_->prompt(row);
    const int64_t length = std::ssize(prompt.prompt_ids) + completion_;
    if (length > tokens) return data::LongRow{{prompt.source_row}, length};
  }
  return std::nullopt;
}

}  // namespace trl::run
