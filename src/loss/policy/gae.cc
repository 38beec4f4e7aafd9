#include "loss/policy/gae.h"

#include <cmath>
#include <numeric>

namespace trl::loss {

void estimate_advantages(std::span<const double> rewards, std::span<const double> values, double gamma,
                         double lambda, std::span<double> advantages) {
  double next_value = 0, next_advantage = 0;
  for (size_t t = rewards.size(); t-- > 0;) {
    next_advantage = rewards[t] + gamma * next_value - values[t] + gamma * lambda * next_advantage;
    next_value = values[t];
    advantages[t] = next_advantage;
  }
}

void whiten(std::span<double> values, bool keep_mean) {
  if (values.empty()) return;
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double variance = count > 1 ? squares / (count - 1) : 0;
  for (double& value : values) value = (value - mean) / std::sqrt(variance + 1e-8) + (keep_mean ? mean : 0);
}

}  // namespace trl::loss
