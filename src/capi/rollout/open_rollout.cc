#include "capi/rollout/open_rollout.h"

#include <utility>

#include "base/threads/polled_lock.h"

namespace trl::capi {

OpenRollout::Scope::Scope(OpenRollout& open, std::shared_ptr<const run::HostRollout> rows,
                          Interrupt& of_trainer)
    : open_(open), of_trainer_(of_trainer) {
  const std::lock_guard lock(open_.mutex_);
  open_.rows_ = std::move(rows);
}

void OpenRollout::Scope::close() {
  open_.forget();
  const auto no_user = base::polled_lock(open_.in_use_);
  closed_ = true;
}

OpenRollout::Scope::~Scope() {
  if (closed_) return;
  open_.forget();
  std::unique_lock no_user(open_.in_use_, std::try_to_lock);
  if (no_user) return;
  of_trainer_.fail();
  no_user.lock();
}

bool OpenRollout::is_open() const {
  const std::lock_guard lock(mutex_);
  return rows_ != nullptr && !rows_->finished();
}

void OpenRollout::forget() {
  const std::lock_guard lock(mutex_);
  rows_.reset();
}

std::unique_lock<std::mutex> OpenRollout::enter() {
  if (!is_open()) return {};
  base::Turn first(order_);  // so that nobody comes twice in between
  first.wait([] {
    base::poll();
    return true;
  });
  auto right = base::polled_lock(in_use_);
  if (!is_open()) return {};  // it was closed in between
  return right;
}

std::unique_lock<std::mutex> OpenRollout::try_enter() {
  if (!is_open()) return {};
  std::unique_lock right(in_use_, std::try_to_lock);
  if (!right || !is_open()) return {};
  return right;
}

void OpenRollout::release_memory() {
  for (const Used& used : std::exchange(used_, {}))
    if (const auto requests = used.lock()) requests->release_memory();
}

}  // namespace trl::capi
