// The losses of DPO (Rafailov et al. 2023) and related methods over the pairs of one micro-batch:
// log-probabilities of sequences -> a scalar and its derivatives. Pure; as in TRL's DPOTrainer._compute_loss.
#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace trl::loss {

enum class DpoLoss : uint8_t {
  sigmoid,
  hinge,         // Zhao et al. 2023 (SLiC)
  ipo,           // Azar et al. 2023
  exo_pair,      // Ji et al. 2024
  nca_pair,      // Chen et al. 2024
  robust,        // Chowdhury et al. 2024
  bco_pair,      // Jung et al. 2024, without its running mean
  sppo_hard,     // Wu et al. 2024
  aot,           // Melnyk et al. 2024, over pairs
  aot_unpaired,  // the same, over both sides separately
  apo_zero,      // D'Oosterlinck et al. 2024
  apo_down,
  discopop,      // Lu et al. 2024
  sft,           // mean of -log p over the tokens of the chosen completions
  sigmoid_norm,  // sigmoid loss of the mean difference per token
};

// The measure of a log-ratio (Wang et al. 2023).
enum class Divergence : uint8_t { reverse_kl, forward_kl, js_divergence, alpha_divergence };

struct DpoOptions {
  std::vector<std::pair<DpoLoss, double>> losses = {{DpoLoss::sigmoid, 1.0}};  // each with its weight
  double beta = 0.1;
  double label_smoothing = 0;
  double discopop_tau = 0.05;
  Divergence divergence = Divergence::reverse_kl;
  double alpha = 0.5;      // alpha_divergence's
  double most_power = 80;  // the largest exponent in alpha_divergence
};

// Log-probabilities of a completion: sums over its tokens; those past the length of the shorter completion
// count ld_alpha times, if that is set.
struct Completion {
  double logp = 0, ref_logp = 0;
  int64_t tokens = 0;        // the completion's tokens; counts the first even if nothing precedes it
  double plain_logp = 0;     // the sum over all tokens with a log-probability, for sft
  int64_t plain_tokens = 0;  // the number of tokens in plain_logp
  double ratio() const { return logp - ref_logp; }
};
struct Pair {
  Completion chosen, rejected;
  double weight = 1;  // factor of the pair's loss, a constant (WPO)
};

struct DpoResult {
  double loss = 0;
  // Derivatives with respect to the logp of each pair, chosen and rejected, and to each token's
  // log-probability in plain_logp.
  std::vector<double> by_chosen, by_rejected;
  double by_chosen_token = 0;
};
// The weighted sum of the losses' means over the pairs, of which there must be at least one.
DpoResult dpo_loss(std::span<const Pair> pairs, const DpoOptions& options);

// A pair's weight in WPO (Zhou et al. 2024), from the means over completion tokens of log p - log(sum of
// squared p). Not clamped.
double wpo_weight(double chosen_mean, double rejected_mean);

}  // namespace trl::loss
