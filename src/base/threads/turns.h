// A lock that threads get in the order in which they ask for it, so that none starves.
#pragma once
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>

namespace trl::base {

class Turns {
 public:
  // Returns true when this thread has the turn. Meanwhile goes_on() is asked every few milliseconds, which
  // may throw: after false, or an exception, the thread waits no more.
  template <class GoesOn>
  bool wait(GoesOn&& goes_on) {
    const uint64_t place = queue();
    try {
      while (!take(place)) {
        if (goes_on()) continue;
        leave(place);
        return false;
      }
      return true;
    } catch (...) {
      leave(place);
      throw;
    }
  }
  void end() noexcept {
    {
      const std::lock_guard lock(mutex_);
      taken_ = false;
    }
    changed_.notify_all();
  }
  bool wanted() const {
    const std::lock_guard lock(mutex_);
    return !queue_.empty();
  }

 private:
  uint64_t queue() {
    const std::lock_guard lock(mutex_);
    queue_.push_back(++latest_);
    return latest_;
  }
  // Waits a while.
  bool take(uint64_t place) {
    std::unique_lock lock(mutex_);
    const auto is_free = [&] { return !taken_ && queue_.front() == place; };
    if (!changed_.wait_for(lock, std::chrono::milliseconds(5), is_free)) return false;
    queue_.pop_front();
    return taken_ = true;
  }
  void leave(uint64_t place) noexcept {
    {
      const std::lock_guard lock(mutex_);
      queue_.erase(std::ranges::find(queue_, place));
    }
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool taken_ = false;
  uint64_t latest_ = 0;
  std::deque<uint64_t> queue_;  // the places of those who wait
};

// The turn of this thread, if it has one.
class Turn {
 public:
  explicit Turn(Turns& turns) : turns_(turns) {}
  ~Turn() { end(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  template <class GoesOn>
  bool wait(GoesOn&& goes_on) {
    return has_ = turns_.wait(goes_on);
  }
  // Lets those who wait go first. After an exception this thread does not have the turn.
  template <class GoesOn>
  void give_way(GoesOn&& goes_on) {
    if (!turns_.wanted()) return;
    end();
    wait(goes_on);
  }

 private:
  void end() noexcept {
    if (has_) turns_.end();
    has_ = false;
  }
  Turns& turns_;
  bool has_ = false;
};

}  // namespace trl::base
