// Advantages of completions from the rewards of a generation batch. Pure; as in TRL's
// _generate_and_score_completions of GRPOTrainer and RLOOTrainer.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "loss/metrics.h"

namespace trl::loss {

// Rewards of all rows. A row without any cannot be scored: its advantage is 0, and no mean counts it.
struct Rewards {
  std::span<const double> values;   // rows x functions, NaN: the function gave none
  std::span<const double> weights;  // by function
  size_t group = 1;                 // completions of a prompt, which are consecutive rows
};

// Standard deviations are those of samples (n - 1), NaN for fewer than two values.
struct Advantages {
  std::vector<float> values;          // by row
  std::vector<double> mean, std;      // by function: rewards/NAME/mean, rewards/NAME/std
  double reward = 0, reward_std = 0;  // of the rows' weighted sums
  double frac_reward_zero_std = 0;    // share of the deviations below that are 0
  // The numbers above that are not by function, by TRL's names.
  Metrics metrics() const {
    return {{"reward", reward}, {"reward_std", reward_std}, {"frac_reward_zero_std", frac_reward_zero_std}};
  }
};

// Returns the groups, by number, whose weighted sums of rewards are equal, or cannot be scored.
std::vector<size_t> groups_without_spread(const Rewards& rewards);

// The divisor, plus 1e-4, of the difference between a reward and the mean of its group.
enum class RewardScale : uint8_t {
  group,  // the deviation of the group (Shao et al. 2024)
  batch,  // the deviation of all rows (Hu et al. 2025)
  none,   // nothing (Liu et al. 2025)
};
// Throws Error(internal), as all functions below, if the rows are not whole groups. A group of one has the
// deviation 0.
Advantages grpo_advantages(const Rewards& rewards, RewardScale scale);
// GDPO (Liu et al. 2026): normalises each function in its groups, adds them up by weight, and normalises the
// sums over all rows.
Advantages gdpo_advantages(const Rewards& rewards);

struct RlooOptions {
  double beta = 0.05;                             // weight of the divergence from the reference
  std::optional<std::pair<double, double>> clip;  // bounds of a row's weighted sum
  bool normalize = false;                         // over all rows
};
// The divergence from the reference, old - reference log-probabilities.
struct ReferenceGap {
  std::span<const double> sums = {};  // by row, over its tokens; empty: there is no reference
  double tokens = 0;                  // of all rows
  double mean() const;                // by token: metric kl
};
// REINFORCE leave-one-out (Ahmadian et al. 2024): the difference to the mean of the group's other rows.
Advantages rloo_advantages(const Rewards& rewards, const RlooOptions& options, const ReferenceGap& gap);

}  // namespace trl::loss
