// The loss of RLOO (Ahmadian et al. 2024): the clipped objective for whole completions. Pure; as in TRL's
// RLOOTrainer._compute_loss.
#pragma once
#include <span>
#include <vector>

#include "loss/metrics.h"
#include "loss/policy/clipped.h"

namespace trl::loss {

// Log-probabilities are sums over the completion's tokens; without any, both are 0.
struct RlooRow {
  double logp = 0, old_logp = 0;
  double advantage = 0;
};

struct RlooResult {
  double loss = 0;
  std::vector<double> terms, by_logp;  // by row: of the loss, and its derivative
  Metrics metrics;                     // clip_ratio/*
};
// The mean over rows.
RlooResult rloo_loss(std::span<const RlooRow> rows, const Clip& clip);

}  // namespace trl::loss
