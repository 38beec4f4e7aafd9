#include "generate/sampling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "generate/logits.h"

namespace trl::generate {

namespace {

// The largest logit, found in lanes that a compiler vectorises. A NaN is ignored.
float largest(std::span<const float> logits) {
  constexpr size_t kLanes = 32;
  std::array<float, kLanes> tops;
  tops.fill(kRemoved);
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane)
      tops[lane] = logits[i + lane] > tops[lane] ? logits[i + lane] : tops[lane];
  float top = *std::ranges::max_element(tops);
  for (; i < logits.size(); ++i) top = std::max(top, logits[i]);
  return top;
}

}  // namespace

void check_sampling(const engine::Sampling& s) {
  if (s.max_new_tokens < 1)
    fail_key("max_new_tokens", "max_new_tokens is {}; expected at least 1", s.max_new_tokens);
  if (!(s.temperature >= 0) || !std::isfinite(s.temperature))
    fail_key("temperature", "temperature is {}; expected 0 (greedy) or more", s.temperature);
  if (s.top_k < 0) fail_key("top_k", "top_k is {}; expected 0 (off) or more", s.top_k);
  if (!(s.top_p > 0 && s.top_p <= 1))
    fail_key("top_p", "top_p is {}; expected more than 0 and at most 1", s.top_p);
  if (!(s.min_p >= 0 && s.min_p <= 1)) fail_key("min_p", "min_p is {}; expected 0 to 1", s.min_p);
  const auto need = [](const char* key, double value, bool holds, const char* expected) {
    if (!holds || !std::isfinite(value)) fail_key(key, "{} is {}; expected {}", key, value, expected);
  };
  need("repetition_penalty", s.repetition_penalty, s.repetition_penalty > 0, "more than 0");
  need("frequency_penalty", s.frequency_penalty, true, "a number");
  need("presence_penalty", s.presence_penalty, true, "a number");
  need("typical_p", s.typical_p, s.typical_p > 0 && s.typical_p <= 1, "more than 0 and at most 1");
  need("epsilon_cutoff", s.epsilon_cutoff, s.epsilon_cutoff >= 0 && s.epsilon_cutoff < 1,
       "0 (off) to less than 1");
  need("eta_cutoff", s.eta_cutoff, s.eta_cutoff >= 0 && s.eta_cutoff < 1, "0 (off) to less than 1");
  if (s.no_repeat_ngram_size < 0)
    fail_key("no_repeat_ngram_size", "no_repeat_ngram_size is {}; expected 0 (off) or more",
             s.no_repeat_ngram_size);
  if (s.min_new_tokens < 0 || s.min_new_tokens > s.max_new_tokens)
    fail_key("min_new_tokens", "min_new_tokens is {}; expected 0 to max_new_tokens, which is {}",
             s.min_new_tokens, s.max_new_tokens);
  for (const auto& [id, bias] : s.logit_bias)
    if (std::isnan(bias)) fail_key("logit_bias", "logit_bias of id {} is not a number", id);
}

int32_t choose_greedy(std::span<const float> logits) {
  return static_cast<int32_t>(std::ranges::find(logits, largest(logits)) - logits.begin());
}

int32_t choose_sampled(std::span<const float> logits, double uniform) {
  const float top = largest(logits);
  // The tokens that are left, and the sum of exponentials up to each.
  std::vector<std::pair<int32_t, double>> sums;
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] == kRemoved) continue;
    sum += std::exp(static_cast<double>(logits[i]) - top);
    sums.emplace_back(static_cast<int32_t>(i), sum);
  }
  const double target = uniform * sum;
  const auto chosen = std::ranges::find_if(sums, [&](const auto& s) { return s.second > target; });
  return chosen == sums.end() ? sums.back().first : chosen->first;  // rounding may make the total too small
}

}  // namespace trl::generate
