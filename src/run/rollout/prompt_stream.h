// Prompts as the rows of a plan: each is as long as its completion allows.
#pragma once
#include <memory>

#include "data/batch/batch_stream.h"
#include "run/rollout/prompts.h"

namespace trl::run {

class PromptStream final : public data::BatchStream {
 public:
  // completion: the most tokens that follow a prompt. most: tokens of prompt and completion that are trained
  // on, none: any. repeats: micro-batches that train on a generation.
  PromptStream(std::shared_ptr<Prompts> prompts, int64_t completion, std::optional<int64_t> most,
               int64_t repeats)
      : prompts_(std::move(prompts)), completion_(completion), most_(most), repeats_(repeats) {}
  int64_t rows() override { return prompts_->count(); }
  int64_t batches_per_epoch() override { return prompts_->generations() * repeats_; }
  uint64_t fingerprint() override { return prompts_->fingerprint(); }
  int64_t longest_row() override;
  std::optional<data::LongRow> longer_than(int64_t tokens) override;
  void tell() override { prompts_->tell(); }
  void start_epoch(int64_t, int64_t, std::span<const int64_t>) override {}
  bool next(data::Batch&) override { return false; }  // a batch is known when its completions are written

 private:
  int64_t length(const data::PromptExample& row) const;

  const std::shared_ptr<Prompts> prompts_;
  const int64_t completion_;
  const std::optional<int64_t> most_;
  const int64_t repeats_;
};

}  // namespace trl::run
