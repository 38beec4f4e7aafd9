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
  if (std::ssize(guessed_) < most) {
    std::vector<int32_t> found = lookup_->after(completion_, most);
    if (found.size() >= guessed_.size()) guessed_ = std::move(found);
  }
  const int64_t count = std::clamp<int64_t>(most, 0, std::ssize(guessed_));
  return std::span(guessed_).first(static_cast<size_t>(count));
}

void Draft::follow(int32_t id) {
  lookup_->append(completion_, id);
  if (guessed_.empty()) return;
  const bool is_right = guessed_.front() == id;
  right_ += kIdWeight * ((is_right ? 1 : 0) - right_);
  guessed_.erase(guessed_.begin(), is_right ? guessed_.begin() + 1 : guessed_.end());
}

void Draft::skip(std::span<const int32_t> ids) {
  make_room(std::ssize(ids));
  for (const int32_t id : ids) lookup_->append(completion_, id);
  guessed_.clear();
}

}  // namespace trl::generate
