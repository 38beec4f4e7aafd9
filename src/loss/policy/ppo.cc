#include "loss/policy/ppo.h"

namespace trl::loss {

namespace {

struct ValueErrors {
  Dual free, bounded;
};

ValueErrors value_errors(const PpoValue& p, size_t token, double value) {
  const Dual v = Dual::variable(value, 0), target = Dual(p.returns[token]);
  const double low = p.old[token] - p.cliprange_value, high = p.old[token] + p.cliprange_value;
  return {square(v - target), square(at_most(at_least(v, low), high) - target)};
}

}  // namespace

PpoTerm PpoPolicy::term(size_t token, double log_prob) const {
  const Dual ratio = exp(Dual::variable(log_prob - old[token], 0));
  const Dual loss =
      clipped(ratio, advantages[token], {cliprange, cliprange}) / static_cast<double>(old.size());
  return {loss.value, loss.by[0]};
}

Metrics PpoPolicy::metrics(std::span<const double> log_probs, size_t positions) const {
  double loss = 0, squares = 0, ratios = 0;
  Clippings clippings;
  for (size_t t = 0; t < log_probs.size(); ++t) {
    const double difference = log_probs[t] - old[t], ratio = std::exp(difference);
    loss += term(t, log_probs[t]).loss;
    squares += difference * difference;
    ratios += ratio - 1;
    clippings.add(ratio, advantages[t], {cliprange, cliprange});
  }
  const auto all = static_cast<double>(positions);
  return {{"policy/approxkl_avg", 0.5 * squares / all},
          {"policy/clipfrac_avg", (clippings.low + clippings.high) / clippings.of},
          {"loss/policy_avg", loss},
          {"val/ratio", 1 + ratios / all}};
}

PpoTerm PpoValue::term(size_t token, double value) const {
  const ValueErrors errors = value_errors(*this, token, value);
  const Dual loss = greater(errors.free, errors.bounded) * (0.5 * weight / static_cast<double>(old.size()));
  return {loss.value, loss.by[0]};
}

Metrics PpoValue::metrics(std::span<const double> values) const {
  double loss = 0, clips = 0;
  for (size_t t = 0; t < values.size(); ++t) {
    const ValueErrors errors = value_errors(*this, t, values[t]);
    loss += 0.5 * greater(errors.free, errors.bounded).value;
    if (errors.bounded.value > errors.free.value) ++clips;
  }
  const auto count = static_cast<double>(values.size());
  return {{"loss/value_avg", loss / count}, {"val/clipfrac_avg", clips / count}};
}

}  // namespace trl::loss
