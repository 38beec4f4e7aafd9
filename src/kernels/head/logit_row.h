// One row of logits: the largest, log-probabilities, and sums that choices of tokens need. Every sum has one
// order, whatever else is computed: kLogitPiece logits at a time in the lanes of a vector, and these pieces
// one after the other in float64. So results have the same bits for equal rows at one instruction set.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/cpu_kernels.h"

namespace trl::kernels {

class LogitRow {
 public:
  explicit LogitRow(std::span<const float> logits);  // at least one; not owned

  std::span<const float> logits() const { return logits_; }
  float logit(int32_t id) const { return logits_[static_cast<size_t>(id)]; }
  float top() const { return top_; }  // a NaN if one of the logits is
  int32_t first_top() const;          // the lowest id of the largest
  // The ids of logits of at least this limit, ascending.
  std::vector<int32_t> ids_from(float limit) const;
  // A limit that at least `count` logits reach; -inf if that would take more than a look at each piece.
  float limit_of(int64_t count) const;

 private:
  std::span<const float> logits_;
  std::vector<float> tops_;  // of each piece
  float top_;
};

// softmax(logits / temperature). The largest logit must be finite. Refers to the row.
class LogitSoftmax {
 public:
  LogitSoftmax(const LogitRow& row, double temperature);

  // (logit - top) / temperature - log(sum)
  float log_probability(int32_t id) const;
  double sum() const { return sum_; }  // of e^((logit - top) / temperature)
  double entropy() const;
  // The first id, in their order, up to which the probabilities are more than `share`, in [0, 1): the inverse
  // of the cumulative distribution.
  int32_t id_at(double share) const;

 private:
  float distance(float logit) const { return (logit - row_->top()) * scale_; }
  const LogitRow* row_;
  float scale_;
  std::vector<float> sums_;  // of each piece
  double sum_ = 0, weighted_ = 0;
};

}  // namespace trl::kernels
