#include "run/rollout/prompt_stream.h"

#include "base/error.h"

namespace trl::run {

std::optional<data::LongRow> PromptStream::longer_than(int64_t tokens) {
  for (int64_t row = 0; row < prompts_->count(); ++row) {
    const data::PromptExample prompt = prompts_->prompt(row);
    const int64_t length = std::ssize(prompt.prompt_ids) + completion_;
    if (length > tokens) return data::LongRow{{prompt.source_row}, length};
  }
  return std::nullopt;
}

void PromptStream::start_epoch(int64_t, int64_t, std::span<const int64_t>) {
  fail(Status::unsupported, "rows of this trainer are prompts: their completions are written in a step");
}

bool PromptStream::next(data::Batch&) { return false; }

}  // namespace trl::run
