#include "run/rollout/prompt_stream.h"

namespace trl::run {

std::optional<data::LongRow> PromptStream::longer_than(int64_t tokens) {
  for (int64_t row = 0; row < prompts_->count(); ++row) {
    const data::PromptExample prompt = prompts_->prompt(row);
    const int64_t length = std::ssize(prompt.prompt_ids) + completion_;
    if (length > tokens) return data::LongRow{{prompt.source_row}, length};
  }
  return std::nullopt;
}

}  // namespace trl::run
