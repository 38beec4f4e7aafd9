// The part of a token's term that depends on the other tokens of its row or micro-batch.
#include <algorithm>
#include <cmath>

#include "loss/policy/policy.h"

namespace trl::loss {

namespace {

// Bounds of log ratios in vespo.
constexpr double kMostLog = 20;
const double kLeastLog = std::log(1e-8);

}  // namespace

bool Policy::by_token() const {
  return !options_.by_sequence && options_.loss != PolicyLoss::vespo && !options_.off_policy_threshold &&
         options_.top_entropy_quantile >= 1;
}

void Policy::measure(std::span<const double> log_probs, std::span<const double> entropies) {
  state_ = state_of(log_probs, entropies);
}

std::vector<double> Policy::counted(std::span<const double> log_probs,
                                    std::span<const double> entropies) const {
  const std::vector<bool> kept = state_of(log_probs, entropies).kept;
  std::vector<double> out;
  for (size_t t = 0; t < entropies.size(); ++t)
    if (kept.empty() || kept[t]) out.push_back(entropies[t]);
  return out;
}

Policy::State Policy::state_of(std::span<const double> log_probs, std::span<const double> entropies) const {
  State state = state_;
  if (by_token()) return state;
  if (options_.top_entropy_quantile < 1) keep_highest(entropies, state);
  for (size_t r = 0; r < state.rows.size(); ++r) {
    Row& row = state.rows[r];
    measure_row(log_probs, static_cast<double>(batch_.advantages[r]), row);
    row.by_log_prob = 0;
    if (!options_.by_sequence) continue;
    double by_log_ratio = 0;
    for (size_t t = row.first; t < row.end; ++t) by_log_ratio += policy_term(state, t, log_probs[t]).by[1];
    if (row.end > row.first) row.by_log_prob = by_log_ratio / row.targets();
  }
  return state;
}

// The border is torch.quantile's of float numbers: the share in float, its rank in double, and interpolated
// in float. A rank of 12.0000005, of a share 0.6 among 21, leaves the token of rank 12 out.
void Policy::keep_highest(std::span<const double> entropies, State& state) const {
  const auto is_nan = [](double entropy) { return std::isnan(entropy); };
  if (entropies.empty() || std::ranges::any_of(entropies, is_nan)) return;  // a loss of NaN shows by itself
  state.kept.assign(entropies.size(), false);
  std::vector<float> sorted(entropies.begin(), entropies.end());
  std::ranges::sort(sorted);
  const double rank = static_cast<double>(static_cast<float>(1 - options_.top_entropy_quantile)) *
                      static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(rank);
  const float least = std::lerp(sorted[below], sorted[std::min(below + 1, sorted.size() - 1)],
                                static_cast<float>(rank - static_cast<double>(below)));
  double count = 0;
  for (size_t t = 0; t < entropies.size(); ++t) {
    state.kept[t] = static_cast<float>(entropies[t]) >= least;
    if (state.kept[t]) ++count;
  }
  state.bonus = -options_.entropy_coef.value_or(0) / (std::max(count, 1.0) * scale_.accumulated);
}

void Policy::measure_row(std::span<const double> log_probs, double advantage, Row& row) const {
  double sum = 0, drift = 0, sequence = 0;
  for (size_t t = row.first; t < row.end; ++t) {
    const double log_ratio = log_probs[t] - old(t, log_probs[t]);
    sum += log_ratio;
    sequence += std::clamp(log_ratio, -kMostLog, kMostLog);
    if (!batch_.importance.empty())
      sequence += std::clamp(std::log(static_cast<double>(batch_.importance[t])), kLeastLog, kMostLog);
    const double sampled =
        batch_.sampling.empty() ? old(t, log_probs[t]) : static_cast<double>(batch_.sampling[t]);
    if (!std::isnan(sampled)) drift += sampled - log_probs[t];
  }
  const double targets = std::max(row.targets(), 1.0);
  row.log_ratio = sum / targets;
  const bool drifted = options_.off_policy_threshold && !(drift / targets <= *options_.off_policy_threshold);
  row.weight = drifted && advantage < 0 ? 0 : 1;
  const Vespo& vespo = advantage >= 0 ? options_.vespo_positive : options_.vespo_negative;
  const double lambda = std::max(vespo.lambda, 1e-4), log_w = std::clamp(sequence, kLeastLog, kMostLog);
  const double phi = std::exp(lambda + vespo.k * log_w - lambda * std::exp(log_w));
  row.phi = std::isfinite(phi) ? phi : 0;
}

}  // namespace trl::loss
