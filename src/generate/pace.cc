#include "generate/pace.h"

#include <algorithm>
#include <new>
#include <queue>
#include <utility>

namespace trl::generate {

namespace {

constexpr double kStepWeight = 0.25;   // of the newest step in a mean
constexpr double kOutlier = 3;         // times the mean: a step that other work slowed down counts no more
constexpr int64_t kMemory = 256;       // steps after which a mean is measured again
constexpr double kRowsUnknown = 0.01;  // the share of a step that a row is taken to cost until it is measured
constexpr double kClearly = 1.03;
constexpr double kLeast = 1e-3;  // tokens that a row must give

}  // namespace

void Pace::record(int64_t rows, double seconds) noexcept {
  ++steps_;
  try {
    Mean& mean = by_rows_.try_emplace(rows, Mean{seconds, steps_}).first->second;
    const double limited = std::min(seconds, kOutlier * mean.seconds);
    mean = {mean.seconds + kStepWeight * (limited - mean.seconds), steps_};
  } catch (const std::bad_alloc&) {  // it stays unmeasured
  }
  std::erase_if(by_rows_, [&](const auto& one) { return steps_ - one.second.step > kMemory; });
}

// Steps of nearly as many rows take as long.
bool Pace::knows(int64_t rows) const {
  const auto next = by_rows_.lower_bound(rows - rows / 16);
  return next != by_rows_.end() && next->first <= rows + rows / 16;
}

// Between measured numbers of rows it is a line; beyond the largest one hope, which the next step confirms or
// not.
double Pace::seconds(int64_t rows) const {
  const auto above = by_rows_.lower_bound(rows);
  if (above == by_rows_.begin()) return above->second.seconds;
  const auto& [few, less] = *std::prev(above);
  const auto more = static_cast<double>(rows - few);
  if (above == by_rows_.end()) return less.seconds * (1 + kRowsUnknown * more);
  const auto whole = static_cast<double>(above->first - few);
  return less.seconds + (above->second.seconds - less.seconds) * more / whole;
}

std::vector<int64_t> Pace::worth(int64_t rows, std::span<const Proposal> proposals) const {
  std::vector<int64_t> counts(proposals.size());
  if (!knows(rows)) return counts;
  // The best next id of each proposal, by the probability that all up to it are right.
  std::priority_queue<std::pair<double, size_t>> next;
  for (size_t i = 0; i < proposals.size(); ++i)
    if (proposals[i].ids > 0) next.emplace(proposals[i].right, i);
  double tokens = static_cast<double>(rows), best = kClearly * tokens / seconds(rows);
  std::vector<size_t> order;
  size_t taken = 0;
  while (!next.empty() && next.top().first > kLeast) {
    const auto [gain, i] = next.top();
    next.pop();
    order.push_back(i);
    tokens += gain;
    const double speed = tokens / seconds(rows + std::ssize(order));
    if (speed > best) {
      best = speed;
      taken = order.size();
    }
    if (++counts[i] < proposals[i].ids) next.emplace(gain * proposals[i].right, i);
  }
  std::ranges::fill(counts, 0);
  for (size_t i = 0; i < taken; ++i) ++counts[order[i]];
  return counts;
}

}  // namespace trl::generate
