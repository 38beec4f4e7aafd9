#include "kernels/head/logit_row.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace trl::kernels {

namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

std::span<const float> logit_piece(std::span<const float> logits, size_t piece) {
  const size_t begin = piece * kLogitPiece;
  return logits.subspan(begin, std::min<size_t>(kLogitPiece, logits.size() - begin));
}

}  // namespace

LogitRow::LogitRow(std::span<const float> logits)
    : logits_(logits), tops_((logits.size() + kLogitPiece - 1) / kLogitPiece), top_(kNone) {
  cpu().logit_tops(logits.data(), std::ssize(logits), tops_.data());
  for (const float top : tops_)
    if (top > top_ || top != top) top_ = top;  // a NaN stays
}

int32_t LogitRow::first_top() const {
  const auto piece = std::ranges::find(tops_, top_) - tops_.begin();
  const auto begin = logits_.begin() + piece * kLogitPiece;
  return static_cast<int32_t>(std::find(begin, logits_.end(), top_) - logits_.begin());
}

std::vector<int32_t> LogitRow::ids_from(float limit) const {
  std::vector<int32_t> ids;
  for (size_t piece = 0; piece < tops_.size(); ++piece) {
    if (tops_[piece] < limit) continue;
    auto id = static_cast<int32_t>(piece * kLogitPiece);
    for (const float logit : logit_piece(logits_, piece)) {
      if (logit >= limit) ids.push_back(id);
      ++id;
    }
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
  const std::span<const float> logits = row.logits();
  sums_.resize((logits.size() + kLogitPiece - 1) / kLogitPiece);
  std::vector<float> weighted(sums_.size());
  cpu().logit_sums(logits.data(), std::ssize(logits), row.top(), scale_, sums_.data(), weighted.data());
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
  size_t chosen = 0, at = piece * kLogitPiece;
  for (const float logit : logit_piece(row_->logits(), piece)) {
    const float e = std::exp(distance(logit));
    below += e;
    if (e > 0) chosen = at;
    if (e > 0 && below > target) break;
    ++at;
  }
  return static_cast<int32_t>(chosen);
}

}  // namespace trl::kernels
