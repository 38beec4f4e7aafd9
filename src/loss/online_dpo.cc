#include "loss/online_dpo.h"

namespace trl::loss {

namespace {

// The completions of a prompt, by their number.
struct Ordered {
  size_t chosen, rejected;
};

std::vector<double> scores_of(std::span<const OnlineCompletion> completions, const OnlineDpoOptions& o) {
  std::vector<double> scores;
  // in float32, as TRL: equal scores have no order
  const auto penalty = static_cast<float>(o.missing_eos_penalty.value_or(0));
  for (const OnlineCompletion& c : completions)
    scores.push_back(static_cast<double>(static_cast<float>(c.reward) - (c.ended ? 0.0f : penalty)));
  return scores;
}

std::vector<Ordered> order_of(std::span<const double> scores) {
  const size_t prompts = scores.size() / 2;
  std::vector<Ordered> order;
  for (size_t first = 0; first < prompts; ++first) {
    const size_t second = first + prompts;
    order.push_back(scores[first] >= scores[second] ? Ordered{first, second} : Ordered{second, first});
  }
  return order;
}

template <typename T, typename Value>
double mean_of(const std::vector<T>& items, const Value& value) {
  double sum = 0;
  for (const T& item : items) sum += value(item);
  return sum / static_cast<double>(items.size());
}

Metrics online_metrics(std::span<const OnlineCompletion> completions, const std::vector<double>& scores,
                       const std::vector<Ordered>& order, double beta) {
  const std::vector<OnlineCompletion> all(completions.begin(), completions.end());
  const auto reward = [&](size_t i) { return beta * (all[i].logp - all[i].ref_logp); };
  const double score = mean_of(scores, [](double s) { return s; });
  const double kl = mean_of(all, [](const auto& c) { return c.padded_logp - c.padded_ref_logp; });
  const double chosen = mean_of(order, [&](const Ordered& o) { return reward(o.chosen); });
  const double rejected = mean_of(order, [&](const Ordered& o) { return reward(o.rejected); });
  return {
      {"objective/scores_margin",
       mean_of(order, [&](const Ordered& o) { return scores[o.chosen] - scores[o.rejected]; })},
      {"objective/scores", score},
      {"val/contain_eos_token", mean_of(all, [](const auto& c) { return c.ended ? 1.0 : 0.0; })},
      {"logps/chosen", mean_of(order, [&](const Ordered& o) { return all[o.chosen].logp; })},
      {"logps/rejected", mean_of(order, [&](const Ordered& o) { return all[o.rejected].logp; })},
      {"objective/kl", kl},
      {"objective/non_score_reward", -beta * kl},
      {"objective/rlhf_reward", score - beta * kl},
      {"objective/entropy", mean_of(all, [](const auto& c) { return -c.padded_logp; })},
      {"rewards/chosen", chosen},
      {"rewards/rejected", rejected},
      {"rewards/margins", chosen - rejected},
      {"rewards/accuracies",
       mean_of(order, [&](const Ordered& o) { return reward(o.chosen) > reward(o.rejected) ? 1.0 : 0.0; })},
      {"beta", beta},
  };
}

}  // namespace

OnlineDpoResult online_dpo_loss(std::span<const OnlineCompletion> completions, const OnlineDpoOptions& o) {
  const std::vector<double> scores = scores_of(completions, o);
  const std::vector<Ordered> order = order_of(scores);
  const auto side = [&](size_t i) {  // one token: ipo compares means, and the mean is then the sum
    return Completion{.logp = completions[i].logp, .ref_logp = completions[i].ref_logp, .tokens = 1};
  };
  std::vector<Pair> pairs;
  for (const Ordered& pair : order) pairs.push_back({side(pair.chosen), side(pair.rejected)});
  DpoOptions options;
  options.losses = {{o.loss, 1.0}};
  options.beta = o.beta;
  const DpoResult result = dpo_loss(pairs, options);
  OnlineDpoResult out;
  out.loss = result.loss;
  out.by_logp.assign(completions.size(), 0);
  for (size_t i = 0; i < order.size(); ++i) {
    if (!completions[order[i].chosen].scored && !completions[order[i].rejected].scored) continue;
    out.by_logp[order[i].chosen] = result.by_chosen[i];
    out.by_logp[order[i].rejected] = result.by_rejected[i];
  }
  out.metrics = online_metrics(completions, scores, order, o.beta);
  return out;
}

}  // namespace trl::loss
