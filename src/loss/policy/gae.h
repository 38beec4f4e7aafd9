// Generalised advantage estimation (Schulman et al. 2016), and whitening. Pure; as in PPOTrainer.train of TRL
// 0.23.
#pragma once
#include <span>

namespace trl::loss {

// The advantage of each action of an episode: the sum over later steps l of (gamma lambda)^l times
// r + gamma v' - v. values: of the states before the actions; the state after the last has the value 0. All
// three have the same length. The return of an action is its advantage plus its value.
void estimate_advantages(std::span<const double> rewards, std::span<const double> values, double gamma,
                         double lambda, std::span<double> advantages);

// Divides by the standard deviation of a sample, sqrt(variance + 1e-8), and moves the mean to 0, or keeps it.
void whiten(std::span<double> values, bool keep_mean);

}  // namespace trl::loss
