#include "kernels/head/logit_row.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace trl::kernels {

namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

}  // namespace

LogitRow::LogitRow(std::span<const float> logits, const LogitBits* allowed)
    : logits_(logits),
      allowed_(allowed),
      tops_((logits.size() + kLogitPiece - 1) / kLogitPiece),
      top_(kNone) {
  cpu().logit_tops(logits.data(), std::ssize(logits), words(), tops_.data());
  for (const float top : tops_)
    if (top > top_ || top != top) top_ = top;  // a NaN stays
}

template <class Body>
void LogitRow::each_of_piece(size_t piece, const Body& body) const {
  const size_t begin = piece * kLogitPiece, end = std::min<size_t>(begin + kLogitPiece, logits_.size());
  for (size_t id = begin; id < end; ++id)
    if (!body(static_cast<int32_t>(id), at(id))) return;
}

int32_t LogitRow::first_top() const {
  int32_t first = 0;
  each_of_piece(static_cast<size_t>(std::ranges::find(tops_, top_) - tops_.begin()),
                [&](int32_t id, float logit) {
                  first = id;
                  return logit != top_;
                });
  return first;
}

std::vector<int32_t> LogitRow::ids_from(float limit) const {
  std::vector<int32_t> ids;
  for (size_t piece = 0; piece < tops_.size(); ++piece) {
    if (tops_[piece] < limit) continue;
    each_of_piece(piece, [&](int32_t id, float logit) {
      if (logit >= limit) ids.push_back(id);
      return true;
    });
  }
  return ids;
}

// The pieces' largest logits are so many logits, too.
float LogitRow::limit_of(int64_t count) const {
  if (count > std::ssize(tops_)) return kNone;
  std::vector<float> tops = tops_;
  const auto last = tops.begin() + (count - 1);
  std::ranges::nth_element(tops, last, std::greater<>());
  return *last;
}

LogitSoftmax::LogitSoftmax(const LogitRow& row, double temperature)
    : row_(&row),
      scale_(static_cast<float>(std::clamp<double>(1 / temperature, std::numeric_limits<float>::min(),
                                                   std::numeric_limits<float>::max()))) {
  sums_.resize(row.tops_.size());
  std::vector<float> weighted(sums_.size());
  cpu().logit_sums(row.logits_.data(), std::ssize(row.logits_), row.words(), row.top(), scale_, sums_.data(),
                   weighted.data());
  for (const float part : sums_) sum_ += part;
  for (const float part : weighted) weighted_ += part;
}

float LogitSoftmax::log_probability(int32_t id) const {
  const double above = static_cast<double>(row_->logit(id)) - row_->top();
  return static_cast<float>(above * scale_ - std::log(sum_));
}

double LogitSoftmax::entropy() const { return std::log(sum_) - weighted_ / sum_; }

int32_t LogitSoftmax::id_at(double share) const {
  const double target = share * sum_;
  double below = 0;
  size_t piece = 0, last = 0;  // last: the last piece that has a probability, if rounding leads beyond it
  for (; piece < sums_.size(); ++piece) {
    if (sums_[piece] > 0) last = piece;
    if (below + sums_[piece] > target) break;
    below += sums_[piece];
  }
  if (piece == sums_.size()) below -= sums_[piece = last];
  int32_t chosen = 0;
  row_->each_of_piece(piece, [&](int32_t id, float logit) {
    const float e = std::exp(distance(logit));
    below += e;
    if (e > 0) chosen = id;
    return !(e > 0 && below > target);
  });
  return chosen;
}

}  // namespace trl::kernels
