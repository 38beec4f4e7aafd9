#include "generate/truncation.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "generate/logits.h"

namespace trl::generate {

namespace {

using engine::Sampling;

struct Ordered {
  float key;
  int32_t id;
  float weight;
  bool operator<(const Ordered& other) const { return key != other.key ? key < other.key : id < other.id; }
};

// Returns the last of the tokens that are needed, in their order, until the sum of their weights is enough;
// at least the first. Halves the range in which it is, so nothing is sorted.
template <class Enough>
Ordered last_needed(std::vector<Ordered>& tokens, const Enough& enough) {
  double before = 0;
  size_t begin = 0, end = tokens.size();
  const auto place = [&](size_t i) { return tokens.begin() + static_cast<std::ptrdiff_t>(i); };
  while (end - begin > 1) {
    const size_t middle = begin + (end - begin) / 2;
    std::nth_element(place(begin), place(middle), place(end));
    double sum = before;
    for (size_t i = begin; i < middle; ++i) sum += tokens[i].weight;
    if (enough(sum))
      end = middle;
    else
      begin = middle, before = sum;
  }
  return tokens[begin];
}

// Tokens of a distribution: all that are left, or, before the first step, those that it may leave.
class Truncation {
 public:
  Truncation(std::vector<Candidate> tokens, const kernels::LogitSoftmax& whole)
      : tokens_(std::move(tokens)), sum_(whole.sum()), entropy_(whole.entropy()) {
    for (const Candidate& token : tokens_) top_ = std::max(top_, token.logit);
  }

  void keep_top_k(int64_t k);
  void keep_top_p(double p);
  void keep_min_p(double min_p);
  void keep_typical(double p);
  void keep_probable(float limit);
  void keep_above_eta(double eta);
  std::vector<Candidate> take() { return std::move(tokens_); }

 private:
  float probability(const Candidate& token) const { return static_cast<float>(token.weight / sum_); }
  template <class Key>
  std::vector<Ordered> by(const Key& key) const {
    std::vector<Ordered> ordered;
    ordered.reserve(tokens_.size());
    for (const Candidate& token : tokens_) ordered.push_back({key(token), token.id, token.weight});
    return ordered;
  }
  template <class Removed>
  void remove_if(const Removed& removed) {
    std::erase_if(tokens_, removed);
    follow_top();
    double sum = 0, weighted = 0;
    for (const Candidate& token : tokens_) {
      sum += token.weight;
      if (token.weight > 0) weighted += token.weight * (token.logit - top_);
    }
    sum_ = sum;
    entropy_ = std::log(sum) - weighted / sum;
  }

  // Makes weights relative to another largest logit: keep_typical may remove the first one.
  void follow_top() {
    float top = kRemoved;
    for (const Candidate& token : tokens_) top = std::max(top, token.logit);
    if (top == top_) return;
    top_ = top;
    for (Candidate& token : tokens_) token.weight = std::exp(token.logit - top_);
  }

  std::vector<Candidate> tokens_;
  float top_ = kRemoved;
  double sum_, entropy_;
};

// Ties with the k-th largest stay.
void Truncation::keep_top_k(int64_t k) {
  if (static_cast<uint64_t>(k) >= tokens_.size()) return remove_if([](const Candidate&) { return false; });
  std::vector<float> logits(tokens_.size());
  std::ranges::transform(tokens_, logits.begin(), &Candidate::logit);
  const auto kth = logits.begin() + (k - 1);
  std::ranges::nth_element(logits, kth, std::greater<>());
  remove_if([limit = *kth](const Candidate& token) { return token.logit < limit; });
}

// Removes tokens from the smallest up while the cumulative probability is at most 1 - p; the largest stays.
// Among equal ones the lower id stays longer (torch's sort leaves that open).
void Truncation::keep_top_p(double p) {
  const auto limit = static_cast<float>(1.0 - p);
  std::vector<Ordered> ordered = by([](const Candidate& token) { return -token.logit; });
  const Ordered last =
      last_needed(ordered, [&](double sum) { return static_cast<float>((sum_ - sum) / sum_) <= limit; });
  remove_if([&](const Candidate& token) { return last < Ordered{-token.logit, token.id, 0}; });
}

void Truncation::keep_min_p(double min_p) {
  const float limit = static_cast<float>(min_p) * static_cast<float>(1 / sum_);
  remove_if([&](const Candidate& token) { return probability(token) < limit; });
}

// Keeps the tokens whose surprise is nearest to the entropy, until their probability reaches p (Meister et
// al. 2022, "Locally typical sampling"); equally near ones stay.
void Truncation::keep_typical(double p) {
  const auto typical = static_cast<float>(entropy_ - std::log(sum_));
  const auto distance = [&](const Candidate& token) { return std::abs(top_ - token.logit - typical); };
  std::vector<Ordered> ordered = by(distance);
  const float farthest = last_needed(ordered, [&](double sum) { return sum / sum_ >= p; }).key;
  remove_if([&](const Candidate& token) { return distance(token) > farthest; });
}

// Removes tokens that are less probable than a limit; the largest stay.
void Truncation::keep_probable(float limit) {
  remove_if([&](const Candidate& token) { return probability(token) < limit && token.logit < top_; });
}

// The limit depends on the entropy (Hewitt et al. 2022, "Truncation sampling as language model desmoothing").
double eta_limit(double eta, double entropy) { return std::min(eta, std::sqrt(eta) * std::exp(-entropy)); }
void Truncation::keep_above_eta(double eta) { keep_probable(static_cast<float>(eta_limit(eta, entropy_))); }

// Returns a logit, not divided by the temperature, below which the first step removes all.
float least_left(const kernels::LogitRow& row, const kernels::LogitSoftmax& whole, const Sampling& s) {
  constexpr double kRounding = 1e-3;
  const auto of_weight = [&](double weight) {
    return static_cast<float>(row.top() + s.temperature * (std::log(std::min(1.0, weight)) - kRounding));
  };
  const bool early = s.order == engine::SamplingOrder::vllm && s.min_p > 0;
  if (s.top_k > 0 && !early) return row.limit_of(s.top_k);
  // As many tokens as there are, all less likely than this, are still less than 1 - top_p together.
  if (s.top_p < 1 && !early) return of_weight((1 - s.top_p) * whole.sum() / static_cast<double>(row.size()));
  if (s.min_p > 0) return of_weight(s.min_p);
  if (s.typical_p < 1) return kRemoved;
  if (s.epsilon_cutoff > 0) return of_weight(s.epsilon_cutoff * whole.sum());
  return of_weight(eta_limit(s.eta_cutoff, whole.entropy()) * whole.sum());
}

// Returns the tokens from a logit on, with logits divided by the temperature. If it is so small that
// quotients exceed float32, only the largest are left.
std::vector<Candidate> candidates(const kernels::LogitRow& row, float least, float temperature) {
  const float top = row.top() / temperature;
  const bool fits = std::isfinite(top);
  std::vector<Candidate> tokens;
  for (const int32_t id : row.ids_from(fits ? least : row.top())) {
    const float logit = fits ? row.logit(id) / temperature : 0;
    if (logit > kRemoved) tokens.push_back({id, logit, fits ? std::exp(logit - top) : 1});
  }
  return tokens;
}

}  // namespace

bool truncates(const Sampling& s) {
  return s.top_k > 0 || s.top_p < 1 || s.min_p > 0 || s.typical_p < 1 || s.epsilon_cutoff > 0 ||
         s.eta_cutoff > 0;
}

std::vector<Candidate> truncate(const kernels::LogitRow& row, const kernels::LogitSoftmax& whole,
                                const Sampling& s) {
  Truncation left(candidates(row, least_left(row, whole, s), static_cast<float>(s.temperature)), whole);
  const bool early = s.order == engine::SamplingOrder::vllm;
  if (early && s.min_p > 0) left.keep_min_p(s.min_p);
  if (s.top_k > 0) left.keep_top_k(s.top_k);
  if (s.top_p < 1) left.keep_top_p(s.top_p);
  if (!early && s.min_p > 0) left.keep_min_p(s.min_p);
  if (s.typical_p < 1) left.keep_typical(s.typical_p);
  if (s.epsilon_cutoff > 0) left.keep_probable(static_cast<float>(s.epsilon_cutoff));
  if (s.eta_cutoff > 0) left.keep_above_eta(s.eta_cutoff);
  return left.take();
}

}  // namespace trl::generate
