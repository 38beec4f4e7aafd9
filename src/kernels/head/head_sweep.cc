#include "kernels/head/head_sweep.h"

#include <algorithm>

#include "kernels/head/log_probability.h"

namespace trl::kernels {

namespace {

TokenValues values_of(const HeadStats& s, float logit, int64_t token, int64_t vocab) {
  const double log_sum = std::log(s.sum), top = static_cast<double>(s.top);
  TokenValues v;
  v.log_prob = static_cast<double>(logit) - top - log_sum;
  v.mean_logit = s.total / static_cast<double>(vocab);
  v.mean_log_prob = v.mean_logit - top - log_sum;
  v.entropy = log_sum - s.weighted / s.sum;
  v.log_square = std::log(s.squares) - 2 * log_sum;
  v.best = s.best == token;
  return v;
}

// Sorts by token, then row, and merges equal ones.
void put_in_order(std::vector<HeadTarget>& targets) {
  const auto place = [](const HeadTarget& t) { return std::pair(t.token, t.row); };
  std::ranges::stable_sort(targets,
                           [&](const HeadTarget& a, const HeadTarget& b) { return place(a) < place(b); });
  size_t count = 0;
  for (const HeadTarget& t : targets)
    if (count > 0 && place(targets[count - 1]) == place(t))
      targets[count - 1].own += t.own;
    else
      targets[count++] = t;
  targets.resize(count);
}

}  // namespace

// The results of the formula for a tile.
struct HeadSweep::Terms {
  std::vector<double> by_probs, by_mean, by_entropy;  // [rows]: sums of the derivatives
  std::vector<HeadTarget> targets = {};
};

HeadSweep::HeadSweep(const at::Tensor& hidden, Parameter& head, const HeadTargets& targets,
                     const TokenFormula* formula, const HeadOptions& options, const HeadGradients& gradients)
    : head_(hidden, head, options, gradients),
      targets_(targets),
      formula_(formula),
      wanted_rows_(options.tile_rows),
      learns_(gradients.any()),
      generated_(options.as_generated ? log_probabilities(hidden, head, targets, options)
                                      : std::vector<float>()) {
  for (size_t i = 0; i < targets.rows.size(); ++i) {
    if (!rows_.empty() && rows_.back() == targets.rows[i]) continue;
    rows_.push_back(targets.rows[i]);
    starts_.push_back(i);
  }
  starts_.push_back(targets.rows.size());
}

double HeadSweep::run(std::vector<TokenValues>* values) {
  const tensor::Timed timed(tensor::Part::head);
  if (values != nullptr) values->assign(targets_.rows.size(), {});
  const auto count = std::ssize(rows_);
  if (count == 0) return 0;
  const int64_t most = rows_of_tile(count, head_.row_bytes(), wanted_rows_);
  head_.begin(rows_, most);
  for (int64_t first = 0; first < count; first += most) {
    const int64_t rows = std::min(most, count - first);
    head_.compute(static_cast<size_t>(first), rows, generated_.empty() ? 0 : 1);
    Terms terms = take(static_cast<size_t>(first), static_cast<size_t>(rows), values);
    if (learns_) add_gradients(terms);
  }
  head_.finish();
  return sum_;
}

HeadSweep::Terms HeadSweep::take(size_t first, size_t rows, std::vector<TokenValues>* values) {
  Terms terms{std::vector<double>(rows), std::vector<double>(rows), std::vector<double>(rows)};
  for (size_t i = 0; i < rows; ++i) {
    for (size_t t = starts_[first + i]; t < starts_[first + i + 1]; ++t) {
      const int64_t token = targets_.tokens[t];
      TokenValues value = values_of(head_.stats(i), head_.logit(token, i), token, head_.vocab());
      if (!generated_.empty()) value.log_prob = static_cast<double>(generated_[t]);
      if (values != nullptr) (*values)[t] = value;
      if (formula_ == nullptr) continue;
      const TokenTerm term = term_of(*formula_, t, value.log_prob, value.mean_log_prob, value.entropy);
      sum_ += term.loss;
      terms.by_probs[i] -= term.by_log_prob + term.by_mean_log_prob;
      terms.by_mean[i] -= term.by_mean_log_prob;
      terms.by_entropy[i] += term.by_entropy;
      terms.targets.push_back(
          {token, static_cast<int64_t>(i), -static_cast<float>(term.by_log_prob * head_.logit_factor())});
    }
  }
  return terms;
}

void HeadSweep::add_gradients(Terms& terms) {
  put_in_order(terms.targets);
  const double factor = head_.logit_factor();
  std::vector<float> top(static_cast<size_t>(head_.tile().pitch)), scale(top), spread(top), surprise(top);
  for (size_t i = 0; i < terms.by_probs.size(); ++i) {
    const HeadStats& s = head_.stats(i);
    // dH / dz = -p (log p + H), log p + H = z - top + (sum of e^(z - top) (top - z)) / (sum of e^(z - top))
    const double of_entropy = terms.by_entropy[i] * s.weighted / s.sum;
    top[i] = s.top;
    scale[i] = static_cast<float>((terms.by_probs[i] + of_entropy) * factor / s.sum);
    spread[i] = static_cast<float>(terms.by_mean[i] * factor / static_cast<double>(head_.vocab()));
    surprise[i] = static_cast<float>(-terms.by_entropy[i] * factor / s.sum);
  }
  head_.add_gradients({top.data(), scale.data(), spread.data(),
                       formula_->by_entropy() ? surprise.data() : nullptr, terms.targets.data(),
                       terms.targets.data() + terms.targets.size()});
}

}  // namespace trl::kernels
