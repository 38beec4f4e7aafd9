// One row of logits: the largest, log-probabilities, and sums that choices of tokens need. Every sum has one
// order, whatever else is computed: kLogitPiece logits at a time in the lanes of a vector, and these pieces
// one after the other in float64. So results have the same bits for equal rows at one instruction set.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "kernels/cpu/cpu_kernels.h"

namespace trl::kernels {

// Some of the logits of a row, a bit for each. Those beyond the row are ignored.
class LogitBits {
 public:
  explicit LogitBits(size_t logits)  // none
      : logits_(logits), words_((logits + kLogitPiece - 1) / kLogitPiece * (kLogitPiece / 64)) {}

  bool contains(size_t id) const { return (words_[id / 64] >> (id % 64) & 1) != 0; }
  void add(int32_t id) {
    const auto at = static_cast<size_t>(id);
    if (id >= 0 && at < logits_) words_[at / 64] |= uint64_t{1} << (at % 64);
  }
  void add_words(std::span<const uint64_t> words) {
    const size_t count = std::min(words.size(), words_.size());
    for (size_t i = 0; i < count; ++i) words_[i] |= words[i];
  }
  const uint64_t* words() const { return words_.data(); }

 private:
  size_t logits_;
  std::vector<uint64_t> words_;  // whole pieces
};

class LogitRow {
 public:
  // At least one logit; not owned. allowed: those that count, the others being -inf; all if null.
  explicit LogitRow(std::span<const float> logits, const LogitBits* allowed = nullptr);

  size_t size() const { return logits_.size(); }
  float logit(int32_t id) const { return at(static_cast<size_t>(id)); }
  float top() const { return top_; }  // a NaN if one of the logits is
  int32_t first_top() const;          // the lowest id of the largest
  // The ids of logits of at least this limit, ascending.
  std::vector<int32_t> ids_from(float limit) const;
  // A limit that at least `count` logits reach; -inf if that would take more than a look at each piece.
  float limit_of(int64_t count) const;

 private:
  friend class LogitSoftmax;
  float at(size_t id) const {
    return allowed_ == nullptr || allowed_->contains(id) ? logits_[id]
                                                         : -std::numeric_limits<float>::infinity();
  }
  const uint64_t* words() const { return allowed_ == nullptr ? nullptr : allowed_->words(); }
  // Calls body(id, logit) for those of a piece, until it returns false.
  template <class Body>
  void each_of_piece(size_t piece, const Body& body) const;

  std::span<const float> logits_;
  const LogitBits* allowed_;
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
