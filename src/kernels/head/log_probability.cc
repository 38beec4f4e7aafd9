#include "kernels/head/log_probability.h"

#include <algorithm>

#include "kernels/gemm/gemm.h"
#include "kernels/head/logit_row.h"
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

}  // namespace

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
        const LogitRow given({own, static_cast<size_t>(logits.size(1))});
        values[i] = LogitSoftmax(given, options.temperature).log_probability(targets.tokens[i]);
      }
    });
  }
  return values;
}

}  // namespace trl::kernels
