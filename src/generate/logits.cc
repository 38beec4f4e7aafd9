#include "generate/logits.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

namespace trl::generate {

namespace {

using Ids = std::span<const int32_t>;

void remove(std::span<float> logits, int32_t id) {
  if (id >= 0 && static_cast<size_t>(id) < logits.size()) logits[static_cast<size_t>(id)] = kRemoved;
}

void keep_only(std::span<float> logits, const std::vector<int32_t>& allowed) {
  std::vector<float> kept(logits.size(), kRemoved);
  for (const int32_t id : allowed)
    if (id >= 0 && static_cast<size_t>(id) < kept.size())
      kept[static_cast<size_t>(id)] = logits[static_cast<size_t>(id)];
  std::ranges::copy(kept, logits.begin());
}

// Removes the last id of a word if the others end the text.
void remove_bad_words(std::span<float> logits, Ids ids, const std::vector<std::vector<int32_t>>& words) {
  for (const std::vector<int32_t>& word : words) {
    if (word.empty() || word.size() - 1 > ids.size()) continue;
    const Ids begun(word.data(), word.size() - 1);
    if (std::ranges::equal(begun, ids.last(begun.size()))) remove(logits, word.back());
  }
}

// Removes ids that would end an n-gram that is already there.
void remove_repeated(std::span<float> logits, Ids ids, int64_t n) {
  const auto size = static_cast<size_t>(n);
  if (ids.size() + 1 < size) return;
  const Ids begun = ids.last(size - 1);
  for (size_t i = 0; i + size <= ids.size(); ++i)
    if (std::ranges::equal(begun, ids.subspan(i, size - 1))) remove(logits, ids[i + size - 1]);
}

void penalise_counts(std::span<float> logits, Ids completion, float frequency, float presence) {
  std::map<int32_t, int64_t> counts;
  for (const int32_t id : completion) ++counts[id];
  for (const auto& [id, count] : counts) {
    if (id < 0 || static_cast<size_t>(id) >= logits.size()) continue;
    float& logit = logits[static_cast<size_t>(id)];
    logit -= frequency * static_cast<float>(count);
    logit -= presence;
  }
}

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
  for (float& logit : logits)
    if (logit < *kth) logit = kRemoved;
}

// Computed in float32 like torch.softmax, whose sums torch accumulates wider.
std::vector<float> softmax(std::span<const float> logits) {
  const float top = *std::ranges::max_element(logits);
  std::vector<float> p(logits.size());
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i)
    if (logits[i] != kRemoved) sum += p[i] = std::exp(logits[i] - top);
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
  for (size_t i = 0; i < p.size(); ++i)
    if (logits[i] != kRemoved) order.push_back(i), rest += p[i];
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
  const float limit = static_cast<float>(min_p) * *std::ranges::max_element(p);
  for (size_t i = 0; i < p.size(); ++i)
    if (p[i] < limit) logits[i] = kRemoved;
}

// Divides by a temperature. If it is so small that quotients exceed float32, only the largest stay.
void divide(std::span<float> logits, float temperature) {
  const float top = *std::ranges::max_element(logits);
  const bool fits = temperature > 0 && std::isfinite(top / temperature);
  for (float& logit : logits) logit = fits ? logit / temperature : logit == top ? 0.0f : kRemoved;
}

// Keeps the tokens whose surprise is nearest to the entropy, until their probability reaches p (Meister et
// al. 2022, "Locally typical sampling").
void keep_typical(std::span<float> logits, double typical_p) {
  const std::vector<float> p = softmax(logits);
  float entropy = 0;
  for (const float value : p)
    if (value > 0) entropy -= value * std::log(value);
  std::vector<size_t> order;
  for (size_t i = 0; i < p.size(); ++i)
    if (logits[i] != kRemoved) order.push_back(i);
  std::vector<float> distance(p.size());
  for (const size_t i : order) distance[i] = std::abs(-std::log(p[i]) - entropy);
  std::ranges::stable_sort(order, {}, [&](size_t i) { return distance[i]; });
  double sum = 0;
  size_t kept = 0;
  while (kept < order.size() && (kept == 0 || sum < typical_p)) sum += p[order[kept++]];
  const float farthest = distance[order[kept - 1]];  // equally near ones stay
  for (const size_t i : order)
    if (distance[i] > farthest) logits[i] = kRemoved;
}

// Removes tokens that are less probable than a limit; the largest stays.
void keep_probable(std::span<float> logits, const std::vector<float>& p, float limit) {
  const float top = *std::ranges::max_element(logits);
  for (size_t i = 0; i < p.size(); ++i)
    if (p[i] < limit && logits[i] < top) logits[i] = kRemoved;
}

// The limit depends on the entropy (Hewitt et al. 2022, "Truncation sampling as language model desmoothing").
void keep_above_eta(std::span<float> logits, double eta) {
  const std::vector<float> p = softmax(logits);
  double entropy = 0;
  for (const float value : p)
    if (value > 0) entropy -= value * std::log(static_cast<double>(value));
  keep_probable(logits, p, static_cast<float>(std::min(eta, std::sqrt(eta) * std::exp(-entropy))));
}

void remove_unlikely(std::span<float> logits, const engine::Sampling& s) {
  const bool early = s.order == engine::SamplingOrder::vllm;
  if (early && s.min_p > 0) keep_min_p(logits, s.min_p);
  if (s.top_k > 0) keep_top_k(logits, s.top_k);
  if (s.top_p < 1) keep_top_p(logits, s.top_p);
  if (!early && s.min_p > 0) keep_min_p(logits, s.min_p);
  if (s.typical_p < 1) keep_typical(logits, s.typical_p);
  if (s.epsilon_cutoff > 0) keep_probable(logits, softmax(logits), static_cast<float>(s.epsilon_cutoff));
  if (s.eta_cutoff > 0) keep_above_eta(logits, s.eta_cutoff);
}

}  // namespace

void process_logits(std::span<float> logits, Ids ids, size_t prompt, const engine::Sampling& s) {
  const Ids completion = ids.subspan(prompt);
  if (!s.allowed_ids.empty()) keep_only(logits, s.allowed_ids);
  remove_bad_words(logits, ids, s.bad_words_ids);
  for (const int32_t id : s.suppress_tokens) remove(logits, id);
  if (std::ssize(completion) < s.min_new_tokens)
    for (const int32_t id : s.stop_ids) remove(logits, id);
  for (const auto& [id, bias] : s.logit_bias)
    if (id >= 0 && static_cast<size_t>(id) < logits.size()) logits[static_cast<size_t>(id)] += bias;
  if (s.repetition_penalty != 1.0)
    apply_repetition_penalty(logits, ids, static_cast<float>(s.repetition_penalty));
  if (s.no_repeat_ngram_size > 0) remove_repeated(logits, ids, s.no_repeat_ngram_size);
  if (s.frequency_penalty != 0 || s.presence_penalty != 0)
    penalise_counts(logits, completion, static_cast<float>(s.frequency_penalty),
                    static_cast<float>(s.presence_penalty));
  if (s.temperature == 0) return;
  if (s.temperature != 1.0) divide(logits, static_cast<float>(s.temperature));
  remove_unlikely(logits, s);
}

}  // namespace trl::generate
