// eval_pass_at_k: the share of prompts of which at least one of k completions is right.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "config/online/completion_records.h"
#include "engine/rollout.h"

namespace trl::run {

// Returns 1 - C(n - c, k) / C(n, k): the probability that k of n completions, drawn without replacement, have
// one of the c that are right. It estimates without bias what k new ones would (Chen et al. 2021,
// https://arxiv.org/abs/2107.03374, equation 1). 1 <= k <= n.
double pass_at_k(int64_t n, int64_t c, int64_t k);

class PassAtK {
 public:
  // group: completions of a prompt in evaluation.
  PassAtK(const config::CompletionRecords& options, int64_t group)
      : numbers_(options.pass_at_k), reward_(options.pass_reward), group_(group) {}
  bool asked() const { return !numbers_.empty(); }
  // Throws Error(invalid_config) if the rewards do not say which one counts.
  void check(const std::vector<std::string>& names) const;
  // Adds the metrics of a batch of an evaluation, the mean of which over all batches is that of all prompts,
  // however few the last batch has. completions: of all batches.
  void add(engine::Rewards& rewards, int64_t batches, int64_t completions) const;

 private:
  size_t counted(const std::vector<std::string>& names) const;

  const std::vector<int64_t> numbers_;
  const std::string reward_;
  const int64_t group_;
};

}  // namespace trl::run
