#include "loss/policy/importance.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace trl::loss {

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Mean and extremes are 0 if nothing was added, as in TRL.
struct Extent {
  double least = kNone, sum = 0, most = kNone, count = 0;
  void add(double value) {
    least = std::fmin(least, value);
    most = std::fmax(most, value);
    sum += value;
    ++count;
  }
  double mean() const { return sum / std::max(count, 1.0); }
  double at_least() const { return count > 0 ? least : 0; }
  double at_most() const { return count > 0 ? most : 0; }
};

double bounded_ratio(double log_ratio, const ImportanceOptions& o) {
  const double ratio = std::exp(log_ratio);
  const bool truncate =
      o.mode == ImportanceMode::token_truncate || o.mode == ImportanceMode::sequence_truncate;
  if (truncate) return std::min(std::max(ratio, o.least), o.most);
  return ratio < o.least || ratio > o.most ? 0 : ratio;
}

}  // namespace

void SamplingGap::add(double of_training, double of_sampler) {
  if (std::isnan(of_sampler)) return;
  const double difference = std::abs(of_training - of_sampler);
  sum_ += difference;
  most_ = std::fmax(most_, difference);
  ++count_;
}

Metrics SamplingGap::metrics() const {
  return {{"sampling/sampling_logp_difference/mean", sum_ / std::max(count_, 1.0)},
          {"sampling/sampling_logp_difference/max", empty() ? 0 : most_}};
}

Importance importance_ratios(const ImportanceBatch& batch, const ImportanceOptions& options) {
  const size_t targets = batch.rows.size();
  if (batch.old.size() != targets || batch.sampling.size() != targets)
    fail(Status::internal, "{} targets with {} old and {} sampled log-probabilities", targets,
         batch.old.size(), batch.sampling.size());
  const bool by_sequence =
      options.mode == ImportanceMode::sequence_truncate || options.mode == ImportanceMode::sequence_mask;
  SamplingGap gap;
  Extent ratios;
  std::vector<double> sums(batch.row_count);
  Importance out;
  for (size_t t = 0; t < targets; ++t) {
    const auto old = static_cast<double>(batch.old[t]), sampling = static_cast<double>(batch.sampling[t]);
    const double difference = old - sampling;
    const bool known = !std::isnan(sampling);
    gap.add(old, sampling);
    if (by_sequence) {
      if (known) sums.at(static_cast<size_t>(batch.rows[t])) += difference;
      continue;
    }
    const double ratio = bounded_ratio(known ? difference : 0, options);
    ratios.add(ratio);
    out.ratios.push_back(static_cast<float>(ratio));
  }
  if (by_sequence) {
    for (double& sum : sums) ratios.add(sum = bounded_ratio(sum, options));
    for (const int32_t row : batch.rows)
      out.ratios.push_back(static_cast<float>(sums[static_cast<size_t>(row)]));
  }
  out.metrics = gap.metrics();
  out.metrics.insert(out.metrics.end(), {{"sampling/importance_sampling_ratio/min", ratios.at_least()},
                                         {"sampling/importance_sampling_ratio/mean", ratios.mean()},
                                         {"sampling/importance_sampling_ratio/max", ratios.at_most()}});
  return out;
}

}  // namespace trl::loss
