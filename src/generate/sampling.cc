#include "generate/sampling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"

namespace trl::generate {

namespace {

constexpr float kRemoved = -std::numeric_limits<float>::infinity();

void apply_repetition_penalty(std::span<float> logits, std::span<const int32_t> previous, float penalty) {
  std::vector<bool> seen(logits.size());
  for (const int32_t id : previous) {
    if (id < 0 || static_cast<size_t>(id) >= logits.size() || seen[static_cast<size_t>(id)]) continue;
    seen[static_cast<size_t>(id)] = true;
    float& logit = logits[static_cast<size_t>(id)];
    logit = logit < 0 ? logit * penalty : logit / penalty;
  }
}

// Keeps the k largest; ties with the k-th largest stay.
void keep_top_k(std::span<float> logits, int64_t k) {
  if (static_cast<uint64_t>(k) >= logits.size()) return;
  std::vector<float> sorted(logits.begin(), logits.end());
  const auto kth = sorted.begin() + (k - 1);
  std::nth_element(sorted.begin(), kth, sorted.end(), std::greater<>());
  for (float& logit : logits) {
    if (logit < *kth) logit = kRemoved;
  }
}

// Computed in float32 like torch.softmax, whose sums torch accumulates wider.
std::vector<float> softmax(std::span<const float> logits) {
  const float top = *std::max_element(logits.begin(), logits.end());
  std::vector<float> p(logits.size());
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    if (logits[i] != kRemoved) sum += p[i] = std::exp(logits[i] - top);
  }
  for (float& value : p) value = static_cast<float>(value / sum);
  return p;
}

// Removes tokens from the smallest up while the cumulative probability is at most 1 - p; the largest stays.
// Among equal ones the lower id stays longer (torch's sort leaves that open). Counted from the largest down,
// because few stay: only these are sorted, a few more at a time until the first one that is removed.
void keep_top_p(std::span<float> logits, double top_p) {
  const std::vector<float> p = softmax(logits);
  std::vector<size_t> order;
  double rest = 0;  // the probability of a token and of all smaller ones
  for (size_t i = 0; i < p.size(); ++i) {
    if (logits[i] != kRemoved) order.push_back(i), rest += p[i];
  }
  const auto larger = [&](size_t a, size_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  const auto limit = static_cast<float>(1.0 - top_p);
  size_t kept = 0, sorted = 0;
  for (; kept < order.size() && (kept == 0 || static_cast<float>(rest) > limit); ++kept) {
    if (kept == sorted) {
      sorted = std::min(order.size(), std::max<size_t>(64, 4 * sorted));
      const auto begin = order.begin() + static_cast<std::ptrdiff_t>(kept);
      const auto end = order.begin() + static_cast<std::ptrdiff_t>(sorted);
      if (end != order.end()) std::nth_element(begin, end, order.end(), larger);
      std::sort(begin, end, larger);
    }
    rest -= p[order[kept]];
  }
  for (size_t i = kept; i < order.size(); ++i) logits[order[i]] = kRemoved;
}

void keep_min_p(std::span<float> logits, double min_p) {
  const std::vector<float> p = softmax(logits);
  const float limit = static_cast<float>(min_p) * *std::max_element(p.begin(), p.end());
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] < limit) logits[i] = kRemoved;
  }
}

// Divides by a temperature. If it is so small that quotients exceed float32, only the largest stay.
void divide(std::span<float> logits, float temperature) {
  const float top = *std::max_element(logits.begin(), logits.end());
  const bool fits = temperature > 0 && std::isfinite(top / temperature);
  for (float& logit : logits) logit = fits ? logit / temperature : logit == top ? 0.0f : kRemoved;
}

// The largest logit, found in lanes that a compiler vectorises. A NaN is ignored.
float largest(std::span<const float> logits) {
  constexpr size_t kLanes = 32;
  std::array<float, kLanes> tops;
  tops.fill(kRemoved);
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane)
      tops[lane] = logits[i + lane] > tops[lane] ? logits[i + lane] : tops[lane];
  }
  float top = *std::max_element(tops.begin(), tops.end());
  for (; i < logits.size(); ++i) top = std::max(top, logits[i]);
  return top;
}

}  // namespace

void check_sampling(const engine::Sampling& s) {
  if (s.max_new_tokens < 1)
    fail_key("max_new_tokens", "max_new_tokens is {}; expected at least 1", s.max_new_tokens);
  if (!(s.temperature >= 0) || !std::isfinite(s.temperature)) {
    fail_key("temperature", "temperature is {}; expected 0 (greedy) or more", s.temperature);
  }
  if (s.top_k < 0) fail_key("top_k", "top_k is {}; expected 0 (off) or more", s.top_k);
  if (!(s.top_p > 0 && s.top_p <= 1))
    fail_key("top_p", "top_p is {}; expected more than 0 and at most 1", s.top_p);
  if (!(s.min_p >= 0 && s.min_p <= 1)) fail_key("min_p", "min_p is {}; expected 0 to 1", s.min_p);
  if (!(s.repetition_penalty > 0) || !std::isfinite(s.repetition_penalty)) {
    fail_key("repetition_penalty", "repetition_penalty is {}; expected more than 0", s.repetition_penalty);
  }
}

void process_logits(std::span<float> logits, std::span<const int32_t> previous, const engine::Sampling& s) {
  if (s.repetition_penalty != 1.0)
    apply_repetition_penalty(logits, previous, static_cast<float>(s.repetition_penalty));
  if (s.temperature == 0) return;
  if (s.temperature != 1.0) {
    divide(logits, static_cast<float>(s.temperature));
  }
  if (s.top_k > 0) keep_top_k(logits, s.top_k);
  if (s.top_p < 1) keep_top_p(logits, s.top_p);
  if (s.min_p > 0) keep_min_p(logits, s.min_p);
}

int32_t choose_greedy(std::span<const float> logits) {
  return static_cast<int32_t>(std::find(logits.begin(), logits.end(), largest(logits)) - logits.begin());
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
  const auto chosen =
      std::find_if(sums.begin(), sums.end(), [&](const auto& s) { return s.second > target; });
  return chosen == sums.end() ? sums.back().first : chosen->first;  // rounding may make the total too small
}

float log_probability(std::span<const float> logits, int32_t id) {
  const float top = largest(logits);
  double sum = 0;
  for (const float logit : logits) {
    if (logit != kRemoved) sum += std::exp(static_cast<double>(logit) - top);
  }
  return static_cast<float>(logits[static_cast<size_t>(id)] - top - std::log(sum));
}

}  // namespace trl::generate
