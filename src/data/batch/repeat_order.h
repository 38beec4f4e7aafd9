// The order of prompts: in groups of a generation batch, each prompt repeated once for each of its
// completions, each group once for each time that its completions are trained on (TRL's RepeatSampler).
#pragma once
#include <cstdint>
#include <vector>

#include "base/arithmetic/random.h"

namespace trl::data {

struct RepeatOptions {
  int64_t rows = 0;
  int64_t num_generations = 8;               // completions of a prompt
  int64_t prompts_per_generation_batch = 1;  // the last group is left out if it has fewer
  int64_t repeat_count = 1;                  // num_iterations * steps_per_generation
  bool shuffle = true;
  // An epoch's permutation has a generator of its own, as that of PyTorch's DataLoader, which draws a number
  // for its workers, and then the seed of the permutation.
  bool by_loader = false;
  uint64_t seed = 42;
};

// exclusive. One generator is seeded once and continues from epoch to epoch.
class RepeatOrder {
 public:
  explicit RepeatOrder(const RepeatOptions& options);  // throws Error(invalid_argument) for counts below 1
  void start_epoch(int64_t epoch);
  int64_t size() const;                  // of an epoch
  int64_t operator[](int64_t at) const;  // the row; 0 <= at < size()

 private:
  void draw();

  RepeatOptions options_;
  base::TorchGenerator generator_;
  int64_t drawn_ = 0;  // epochs
  std::vector<int64_t> prompts_;
};

}  // namespace trl::data
