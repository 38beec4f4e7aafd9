#include <algorithm>
#include <cmath>

#include "loss/policy/policy.h"

namespace trl::loss {

Metrics Policy::metrics(std::span<const double> log_probs, std::span<const double> entropies) const {
  const State state = state_of(log_probs, entropies);
  const double targets = std::max(static_cast<double>(log_probs.size()), 1.0);
  const auto rows = static_cast<double>(state.rows.size());
  std::vector<Clippings> clippings(state.rows.size());
  double loss = 0, kl = 0, entropy = 0, above = 0, ratios = 0, phi = 0;
  for (size_t r = 0; r < state.rows.size(); ++r) {
    const Row& row = state.rows[r];
    const auto a = static_cast<double>(batch_.advantages[r]);
    phi += row.phi;
    const auto count = [&](double value) {
      clippings[r].add(options_.delta ? std::min(value, *options_.delta) : value, a, options_.epsilon);
      if (a > 0 && value > options_.epsilon.high) ++above;
      ++ratios;
    };
    if (options_.by_sequence) count(std::exp(row.log_ratio));
    for (size_t t = row.first; t < row.end; ++t) {
      const Dual value = ratio(state, t, log_probs[t]);
      if (!options_.by_sequence) count(value.value);
      if (options_.beta != 0) kl += divergence(value, t, log_probs[t]).value;
      loss += policy_term(state, t, log_probs[t]).value;
      entropy += entropies[t];
    }
  }
  if (!divided_by_items()) loss *= scale_.accumulated;
  Metrics out;
  if (options_.entropy_coef) out.emplace_back("policy_loss", loss);
  if (options_.beta != 0) out.emplace_back("kl", kl / targets);
  out.emplace_back("entropy", entropy / targets);
  if (options_.loss == PolicyLoss::cispo) out.emplace_back("cispo_clip_ratio", above / std::max(ratios, 1.0));
  if (options_.loss == PolicyLoss::vespo) out.emplace_back("vespo/phi_seq_mean", phi / rows);
  if (options_.loss != PolicyLoss::cispo && options_.loss != PolicyLoss::sapo &&
      options_.loss != PolicyLoss::vespo)
    add_clip_ratios(clippings, out);
  return out;
}

}  // namespace trl::loss
