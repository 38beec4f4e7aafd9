// The rows of each generation of a run that writes completions, in TRL's order.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "data/batch/order.h"
#include "data/batch/repeat_order.h"

namespace trl::run {

class PromptOrder {
 public:
  virtual ~PromptOrder() = default;
  virtual void set_rows(int64_t rows) = 0;  // of the dataset; before all others
  virtual int64_t generations() = 0;        // of an epoch
  // Counts the completions of the first generations of an epoch.
  virtual int64_t completions(int64_t generations) = 0;
  virtual void start_epoch(int64_t epoch) = 0;
  // Returns the row of each completion of a generation of this epoch; empty: there are no more.
  virtual std::vector<int64_t> generation(int64_t number) = 0;
};

// Groups of completions of the same prompt (RepeatSampler). order.rows is not read. most: completions of a
// generation; the last one of an evaluation has fewer, unless drop_last leaves it out.
std::unique_ptr<PromptOrder> repeated_prompts(const data::RepeatOptions& order, int64_t most,
                                              bool drop_last = false);

// The batches of transformers' sampler, all of whose prompts are completed once, and then all once more, as
// often as `copies` says. order.rows is not read; the last batch may have fewer prompts.
std::unique_ptr<PromptOrder> sampled_prompts(const data::OrderOptions& order, int64_t copies);

}  // namespace trl::run
