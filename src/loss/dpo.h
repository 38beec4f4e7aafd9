// The losses of DPO (Rafailov et al. 2023) and its kin over the pairs of one micro-batch: log-probabilities
// of sequences -> a scalar and its derivatives. Pure; as in TRL's DPOTrainer._compute_loss.
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
  aot_unpaired,  // and over both sides by themselves
  apo_zero,      // D'Oosterlinck et al. 2024
  apo_down,
  discopop,      // Lu et al. 2024
  sft,           // -log p of a token of a chosen completion, on average
  sigmoid_norm,  // sigmoid of what a token differs by, on average
};

// Wang et al. 2023: how a log-ratio counts.
enum class Divergence : uint8_t { reverse_kl, forward_kl, js_divergence, alpha_divergence };

struct DpoOptions {
  std::vector<std::pair<DpoLoss, double>> losses = {{DpoLoss::sigmoid, 1.0}};  // and their weights
  double beta = 0.1;
  double label_smoothing = 0;
  double discopop_tau = 0.05;
  Divergence divergence = Divergence::reverse_kl;
  double alpha = 0.5;      // of alpha_divergence
  double most_power = 80;  // that alpha_divergence takes an exponential of
};

// Log-probabilities of a completion: sums over its tokens, those past the length of the shorter of both
// times ld_alpha where that is set.
struct Completion {
  double logp = 0, ref_logp = 0;
  int64_t tokens = 0;        // of it, with the first even where nothing stands before it
  double plain_logp = 0;     // the sum over all tokens with a log-probability, for sft
  int64_t plain_tokens = 0;  // how many these are
  double ratio() const { return logp - ref_logp; }
};
struct Pair {
  Completion chosen, rejected;
  double weight = 1;  // of its loss, a constant (WPO)
};

struct DpoResult {
  double loss = 0;
  // Derivatives by the logp of each pair, chosen and rejected; and by each token's log-probability in
  // plain_logp.
  std::vector<double> by_chosen, by_rejected;
  double by_chosen_token = 0;
};
// The weighted sum of the losses' means over the pairs, at least one of them.
DpoResult dpo_loss(std::span<const Pair> pairs, const DpoOptions& options);

// WPO (Zhou et al. 2024): of a pair, from the means over completion tokens of log p - log(sum of squared p).
// Not clamped.
double wpo_weight(double chosen_mean, double rejected_mean);

}  // namespace trl::loss
