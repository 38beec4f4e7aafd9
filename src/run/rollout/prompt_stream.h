// Prompts as the rows of a plan: each is as long as its completion allows.
#pragma once
#include <memory>

#include "data/batch/batch_stream.h"
#include "run/rollout/prompts.h"

namespace trl::run {

class PromptStream final : public data::BatchStream {
 public:
  // completion: the most tokens that follow a prompt. repeats: micro-batches that train on a generation.
  PromptStream(std::shared_ptr<Prompts> prompts, int64_t completion, int64_t repeats)
      : prompts_(std::move(prompts)), completion_(completion), repeats_(repeats) {}
  int64_t rows() override { return prompts_->count(); }
  int64_t batches_per_epoch() override { return prompts_->generations() * repeats_; }
  uint64_t fingerprint() override { return prompts_->fingerprint(); }
  int64_t longest_row() override { return prompts_->longest() + completion_; }
  std::optional<data::LongRow> longer_than(int64_t tokens) override;
  void tell() override { prompts_->tell(); }
  void start_epoch(int64_t, int64_t, std::span<const int64_t>) override {}
  bool next(data::Batch&) override { return false; }  // a batch is known when its completions are written

 private:
  const std::shared_ptr<Prompts> prompts_;
  const int64_t completion_, repeats_;
};

}  // namespace trl::run
