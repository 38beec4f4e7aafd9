#include "kernels/head/log_probability.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/gemm/gemm.h"
#include "kernels/op.h"

namespace trl::kernels {

namespace {

constexpr int64_t kLogitRows = 32;  // rows whose logits exist at once

// Rows of hidden states that have a target: [rows, width] in the type of hidden.
at::Tensor rows_of(const at::Tensor& hidden, std::span<const int32_t> rows) {
  at::Tensor own =
      tensor::empty({std::ssize(rows), hidden.size(1)}, hidden.scalar_type(), MemoryKind::workspace);
  const auto bytes = static_cast<size_t>(hidden.size(1)) * hidden.element_size();
  tensor::parallel_for(std::ssize(rows), 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      std::memcpy(at_byte(own, i * hidden.size(1)),
                  at_byte(hidden, rows[static_cast<size_t>(i)] * hidden.size(1)), bytes);
  });
  return own;
}

// The largest logit, found in lanes that a compiler vectorises. A NaN is ignored.
float largest(std::span<const float> logits) {
  constexpr size_t kLanes = 32;
  std::array<float, kLanes> tops;
  tops.fill(-std::numeric_limits<float>::infinity());
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane)
      tops[lane] = logits[i + lane] > tops[lane] ? logits[i + lane] : tops[lane];
  float top = *std::ranges::max_element(tops);
  for (; i < logits.size(); ++i) top = std::max(top, logits[i]);
  return top;
}

}  // namespace

float log_probability(std::span<const float> logits, int32_t id, double temperature) {
  const double top = largest(logits);
  double sum = 0;
  for (const float logit : logits)
    if (logit != -std::numeric_limits<float>::infinity()) sum += std::exp((logit - top) / temperature);
  return static_cast<float>((logits[static_cast<size_t>(id)] - top) / temperature - std::log(sum));
}

std::vector<float> log_probabilities(const at::Tensor& hidden, Parameter& head, const HeadTargets& targets,
                                     const HeadOptions& options) {
  const IndependentRows independent;
  std::vector<int32_t> rows(targets.rows);
  rows.erase(std::ranges::unique(rows).begin(), rows.end());
  std::vector<float> values(targets.rows.size());
  size_t done = 0;
  for (size_t first = 0; first < rows.size(); first += kLogitRows) {
    const std::span<const int32_t> part =
        std::span(rows).subspan(first, std::min<size_t>(kLogitRows, rows.size() - first));
    const at::Tensor logits = head_logits(rows_of(hidden, part), head, options);
    const size_t begin = done;
    while (done < values.size() && targets.rows[done] <= part.back()) ++done;
    tensor::parallel_for(static_cast<int64_t>(done - begin), 1, [&](int64_t from, int64_t to) {
      for (size_t i = begin + static_cast<size_t>(from); i < begin + static_cast<size_t>(to); ++i) {
        const int64_t row = std::ranges::lower_bound(part, targets.rows[i]) - part.begin();
        const float* const own = logits.data_ptr<float>() + row * logits.size(1);
        values[i] = log_probability({own, static_cast<size_t>(logits.size(1))}, targets.tokens[i],
                                    options.temperature);
      }
    });
  }
  return values;
}

}  // namespace trl::kernels
