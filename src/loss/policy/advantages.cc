#include "loss/policy/advantages.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace trl::loss {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kTinyDeviation = 1e-4;  // added to each deviation before the division

struct Spread {
  double count = 0, mean = kNaN, std = kNaN;
};
Spread spread_of(std::span<const double> values) {
  Spread s;
  double sum = 0, squares = 0;
  for (const double value : values)
    if (!std::isnan(value)) sum += value, ++s.count;
  if (s.count > 0) s.mean = sum / s.count;
  for (const double value : values)
    if (!std::isnan(value)) squares += (value - s.mean) * (value - s.mean);
  if (s.count > 1) s.std = std::sqrt(squares / (s.count - 1));
  return s;
}

// Returns how a group, or a batch, spreads; that of one row has a deviation of 0.
Spread scale_of(std::span<const double> values) {
  Spread s = spread_of(values);
  if (values.size() == 1) s.std = 0;
  return s;
}

void normalize(std::span<double> values, const Spread& spread) {
  for (double& value : values) value = (value - spread.mean) / (spread.std + kTinyDeviation);
}

size_t rows_of(const Rewards& rewards) {
  const size_t functions = rewards.weights.size(), count = rewards.values.size();
  if (functions == 0 || count % functions != 0 || rewards.group == 0 ||
      count / functions % rewards.group != 0)
    fail(Status::internal, "{} rewards of {} functions, expected whole groups of {} rows", count, functions,
         rewards.group);
  return count / functions;
}

std::vector<double> column_of(const Rewards& rewards, size_t function) {
  std::vector<double> column;
  for (size_t at = function; at < rewards.values.size(); at += rewards.weights.size())
    column.push_back(rewards.values[at]);
  return column;
}

// Returns the rows' weighted sums of `values`; NaN for a row that cannot be scored.
std::vector<double> weighted_sums(const Rewards& rewards, std::span<const double> values) {
  const size_t functions = rewards.weights.size();
  std::vector<double> sums;
  for (size_t at = 0; at < values.size(); at += functions) {
    double sum = 0;
    bool scored = false;
    for (size_t f = 0; f < functions; ++f) {
      if (!std::isnan(values[at + f])) sum += rewards.weights[f] * values[at + f];
      scored = scored || !std::isnan(rewards.values[at + f]);
    }
    sums.push_back(scored ? sum : kNaN);
  }
  return sums;
}

template <typename Visit>
void each_group(std::span<double> values, size_t group, const Visit& visit) {
  for (size_t at = 0; at < values.size(); at += group) visit(values.subspan(at, group));
}

bool is_zero(double deviation) { return std::abs(deviation) <= 1e-8; }

double share_of_zero_groups(std::vector<double> values, size_t group) {
  double zeros = 0;
  each_group(values, group, [&](std::span<double> part) { zeros += is_zero(scale_of(part).std) ? 1 : 0; });
  return zeros * static_cast<double>(group) / static_cast<double>(values.size());
}

// Returns the metrics of the rewards themselves, and takes in their weighted sums.
Advantages metrics_of(const Rewards& rewards, std::span<const double> sums) {
  Advantages out;
  for (size_t f = 0; f < rewards.weights.size(); ++f) {
    const Spread spread = spread_of(column_of(rewards, f));
    out.mean.push_back(spread.mean);
    out.std.push_back(spread.std);
  }
  const Spread spread = spread_of(sums);
  out.reward = spread.mean;
  out.reward_std = spread.std;
  return out;
}

void set_values(std::span<const double> values, Advantages& out) {
  for (const double value : values) out.values.push_back(std::isnan(value) ? 0 : static_cast<float>(value));
}

}  // namespace

std::vector<size_t> groups_without_spread(const Rewards& rewards) {
  rows_of(rewards);
  std::vector<double> values = weighted_sums(rewards, rewards.values);
  std::vector<size_t> groups;
  size_t number = 0;
  each_group(values, rewards.group, [&](std::span<double> group) {
    const double std = scale_of(group).std;
    if (is_zero(std) || std::isnan(std)) groups.push_back(number);
    ++number;
  });
  return groups;
}

Advantages grpo_advantages(const Rewards& rewards, RewardScale scale) {
  rows_of(rewards);
  std::vector<double> values = weighted_sums(rewards, rewards.values);
  Advantages out = metrics_of(rewards, values);
  const Spread batch = scale_of(values);
  out.frac_reward_zero_std = scale == RewardScale::batch ? static_cast<double>(is_zero(batch.std))
                                                         : share_of_zero_groups(values, rewards.group);
  each_group(values, rewards.group, [&](std::span<double> group) {
    Spread spread = scale_of(group);
    if (scale == RewardScale::batch) spread.std = batch.std;
    if (scale == RewardScale::none) spread.std = 1 - kTinyDeviation;
    normalize(group, spread);
  });
  set_values(values, out);
  return out;
}

Advantages gdpo_advantages(const Rewards& rewards) {
  const size_t rows = rows_of(rewards), functions = rewards.weights.size();
  Advantages out = metrics_of(rewards, weighted_sums(rewards, rewards.values));
  std::vector<double> normalized(rewards.values.size());
  for (size_t f = 0; f < functions; ++f) {
    std::vector<double> column = column_of(rewards, f);
    each_group(column, rewards.group, [](std::span<double> group) { normalize(group, scale_of(group)); });
    for (size_t r = 0; r < rows; ++r) normalized[r * functions + f] = column[r];
  }
  std::vector<double> values = weighted_sums(rewards, normalized);
  const Spread batch = scale_of(values);
  out.frac_reward_zero_std = static_cast<double>(is_zero(batch.std));
  normalize(values, batch);
  set_values(values, out);
  return out;
}

double ReferenceGap::mean() const {
  return std::accumulate(sums.begin(), sums.end(), 0.0) / std::max(tokens, 1.0);
}

Advantages rloo_advantages(const Rewards& rewards, const RlooOptions& options, const ReferenceGap& gap) {
  const size_t rows = rows_of(rewards);
  if (!gap.sums.empty() && gap.sums.size() != rows)
    fail(Status::internal, "{} divergences of {} rows", gap.sums.size(), rows);
  std::vector<double> values = weighted_sums(rewards, rewards.values);
  Advantages out = metrics_of(rewards, values);
  for (size_t r = 0; r < rows; ++r) {
    if (options.clip) values[r] = std::clamp(values[r], options.clip->first, options.clip->second);
    if (!gap.sums.empty()) values[r] -= options.beta * gap.sums[r];
  }
  out.frac_reward_zero_std = share_of_zero_groups(values, rewards.group);
  each_group(values, rewards.group, [](std::span<double> group) {
    const Spread spread = spread_of(group);
    const double sum = spread.mean * spread.count;
    for (double& value : group) value -= (sum - value) / (spread.count - 1);  // alone: NaN, which counts as 0
  });
  if (options.normalize) normalize(values, scale_of(values));
  set_values(values, out);
  return out;
}

}  // namespace trl::loss
