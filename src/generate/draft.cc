#include "generate/draft.h"

#include <algorithm>
#include <utility>

namespace trl::generate {

namespace {
constexpr double kIdWeight = 1.0 / 12;  // of the newest id
}  // namespace

Draft::Draft(std::shared_ptr<Lookup> lookup, int64_t completion, double right)
    : lookup_(std::move(lookup)), completion_(completion), right_(right) {}

std::span<const int32_t> Draft::next(int64_t most) {
  if (std::ssize(expected_) < most) {
    std::vector<int32_t> found = lookup_->after(completion_, most);
    if (found.size() >= expected_.size()) expected_ = std::move(found);
  }
  const int64_t count = std::clamp<int64_t>(most, 0, std::ssize(expected_));
  return std::span(expected_).first(static_cast<size_t>(count));
}

void Draft::follow(int32_t id) {
  if (!expected_.empty()) {
    const bool is_right = expected_.front() == id;
    right_ += kIdWeight * ((is_right ? 1 : 0) - right_);
    expected_.erase(expected_.begin(), is_right ? expected_.begin() + 1 : expected_.end());
  }
  lookup_->append(completion_, id);
}

void Draft::skip(std::span<const int32_t> ids) {
  expected_.clear();
  for (const int32_t id : ids) lookup_->append(completion_, id);
}

}  // namespace trl::generate
