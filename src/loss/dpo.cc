#include "loss/dpo.h"

#include <algorithm>
#include <numeric>

#include "loss/dual.h"

namespace trl::loss {

namespace {

// A pair's log-ratios, as variables, and its scores under the divergence.
struct Scores {
  Dual chosen_ratio, rejected_ratio;
  Dual chosen, rejected;
  double chosen_tokens, rejected_tokens;
  Dual difference() const { return chosen - rejected; }
  Dual difference_of_means() const { return chosen / chosen_tokens - rejected / rejected_tokens; }
};

Dual score(const Dual& ratio, const DpoOptions& o) {
  switch (o.divergence) {
    case Divergence::reverse_kl:
      return ratio;
    case Divergence::forward_kl:
      return Dual(1) - exp(-ratio);
    case Divergence::js_divergence:
      return log_sigmoid(ratio) + Dual(std::log(2.0));
    case Divergence::alpha_divergence:
      break;
  }
  const double power = o.alpha - 1;
  if (std::abs(power) < 1e-6) return ratio;
  return (exp(at_most(ratio * power, o.most_power)) - Dual(1)) / power;
}

Scores scores_of(const Pair& pair, const DpoOptions& o) {
  Scores s;
  s.chosen_ratio = Dual::variable(pair.chosen.ratio(), 0);
  s.rejected_ratio = Dual::variable(pair.rejected.ratio(), 1);
  s.chosen = score(s.chosen_ratio, o);
  s.rejected = score(s.rejected_ratio, o);
  s.chosen_tokens = static_cast<double>(std::max<int64_t>(pair.chosen.tokens, 1));
  s.rejected_tokens = static_cast<double>(std::max<int64_t>(pair.rejected.tokens, 1));
  return s;
}

// -(1 - e) log sigmoid(x) - e log sigmoid(-x)
Dual smoothed(const Dual& x, double e) { return log_sigmoid(x) * (e - 1) - log_sigmoid(-x) * e; }

Dual exo(const Dual& x, double e) {
  const Dual q = sigmoid(x), rest = sigmoid(-x);
  return q * (log_sigmoid(x) - Dual(std::log(1 - e))) + rest * (log_sigmoid(-x) - Dual(std::log(e)));
}

Dual discovered(const Dual& x, double tau) {
  const Dual share = sigmoid(x / tau);
  return -log_sigmoid(x) * (Dual(1) - share) + exp(-x) * share;
}

// The loss of a pair, for losses that are a mean over the pairs.
Dual pair_loss(DpoLoss kind, const Scores& s, const DpoOptions& o) {
  const double b = o.beta, e = o.label_smoothing;
  const Dual d = s.difference() * b;
  const Dual chosen = s.chosen_ratio * b, rejected = s.rejected_ratio * b;
  switch (kind) {
    case DpoLoss::sigmoid:
      return -log_sigmoid(d);
    case DpoLoss::hinge:
      return at_least_zero(Dual(1) - d);
    case DpoLoss::ipo:
      return square(s.difference_of_means() - Dual(1 / (2 * b)));
    case DpoLoss::exo_pair:
      return exo(d, e);
    case DpoLoss::nca_pair:
      return -log_sigmoid(chosen) - (log_sigmoid(-chosen) + log_sigmoid(-rejected)) * 0.5;
    case DpoLoss::robust:
      return (log_sigmoid(d) * (e - 1) + log_sigmoid(-d) * e) / (1 - 2 * e);
    case DpoLoss::bco_pair:
      return -log_sigmoid(chosen) - log_sigmoid(-rejected);
    case DpoLoss::sppo_hard:
      return square(s.chosen_ratio - Dual(0.5 / b)) + square(s.rejected_ratio + Dual(0.5 / b));
    case DpoLoss::apo_zero:
      return sigmoid(-chosen) + sigmoid(rejected);
    case DpoLoss::apo_down:
      return sigmoid(chosen) + sigmoid(rejected - chosen);
    case DpoLoss::discopop:
      return discovered(d, o.discopop_tau);
    case DpoLoss::sigmoid_norm:
      return -log_sigmoid(s.difference_of_means() * b);
    case DpoLoss::aot:
    case DpoLoss::aot_unpaired:
    case DpoLoss::sft:
      break;
  }
  return {};
}

std::vector<size_t> sorted(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return values[a] < values[b]; });
  return order;
}

template <typename Value>
std::vector<double> each(std::span<const Pair> pairs, const Value& value) {
  std::vector<double> values;
  for (const Pair& pair : pairs) values.push_back(value(pair));
  return values;
}

// Compares the sorted values of the two sides: the smallest of one with the smallest of the other, and so on.
// The first side is the policy's: the log-ratio between chosen and rejected, or the ratio of the chosen to
// the reference.
void add_aot(std::span<const Pair> pairs, const DpoOptions& o, bool paired, double weight, DpoResult& out) {
  const std::vector<double> first =
      each(pairs, [&](const Pair& p) { return paired ? p.chosen.logp - p.rejected.logp : p.chosen.ratio(); });
  const std::vector<double> second = each(pairs, [&](const Pair& p) {
    return paired ? p.chosen.ref_logp - p.rejected.ref_logp : p.rejected.ratio();
  });
  const std::vector<size_t> a = sorted(first), b = sorted(second);
  const double share = weight / static_cast<double>(pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i) {
    const Dual x = Dual::variable(first[a[i]], 0) - Dual::variable(second[b[i]], 1);
    const Dual loss = smoothed(x * o.beta, o.label_smoothing) * share;
    out.loss += loss.value;
    out.by_chosen[a[i]] += loss.by[0];
    if (paired)
      out.by_rejected[a[i]] -= loss.by[0];
    else
      out.by_rejected[b[i]] += loss.by[1];
  }
}

// Adds the mean over all tokens of all chosen completions, for each pair.
void add_sft(std::span<const Pair> pairs, double weight, DpoResult& out) {
  double sum = 0, tokens = 0, weights = 0;
  for (const Pair& pair : pairs) {
    sum += pair.chosen.plain_logp;
    tokens += static_cast<double>(pair.chosen.plain_tokens);
    weights += pair.weight;
  }
  weights *= weight / static_cast<double>(pairs.size());
  tokens = std::max(tokens, 1.0);
  out.loss -= weights * sum / tokens;
  out.by_chosen_token -= weights / tokens;
}

}  // namespace

DpoResult dpo_loss(std::span<const Pair> pairs, const DpoOptions& options) {
  DpoResult out;
  out.by_chosen.assign(pairs.size(), 0);
  out.by_rejected.assign(pairs.size(), 0);
  for (const auto& [kind, weight] : options.losses) {
    if (kind == DpoLoss::sft) {
      add_sft(pairs, weight, out);
    } else if (kind == DpoLoss::aot || kind == DpoLoss::aot_unpaired) {
      add_aot(pairs, options, kind == DpoLoss::aot, weight, out);
    } else {
      const double share = weight / static_cast<double>(pairs.size());
      for (size_t i = 0; i < pairs.size(); ++i) {
        const Dual loss = pair_loss(kind, scores_of(pairs[i], options), options) * (share * pairs[i].weight);
        out.loss += loss.value;
        out.by_chosen[i] += loss.by[0];
        out.by_rejected[i] += loss.by[1];
      }
    }
  }
  return out;
}

double wpo_weight(double chosen_mean, double rejected_mean) { return std::exp(chosen_mean + rejected_mean); }

}  // namespace trl::loss
