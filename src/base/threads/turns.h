// A lock that threads get in the order in which they ask for it, so that none starves.
#pragma once
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <new>

namespace trl::base {

class Turns {
 public:
  // Returns true when this thread has the turn. Meanwhile goes_on() is asked every few milliseconds, which
  // may throw: after false, or an exception, the thread waits no more.
  template <class GoesOn>
  bool wait(GoesOn&& goes_on) {
    return wait_at(queue(), goes_on);
  }
  // With the turn: lets those who wait go first. Returns, or throws, as wait().
  template <class GoesOn>
  bool give_way(GoesOn&& goes_on) {
    const uint64_t place = queue_again();
    return place == 0 || wait_at(place, goes_on);
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
  template <class GoesOn>
  bool wait_at(uint64_t place, GoesOn& goes_on) {
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
  uint64_t queue() {
    const std::lock_guard lock(mutex_);
    queue_.push_back(latest_ + 1);
    return ++latest_;
  }
  // Ends the turn and queues at once, so that nobody comes twice in between. 0: nobody waits, or there is no
  // memory to queue.
  uint64_t queue_again() noexcept {
    uint64_t place = 0;
    {
      const std::lock_guard lock(mutex_);
      if (queue_.empty()) return 0;
      try {
        queue_.push_back(latest_ + 1);
      } catch (const std::bad_alloc&) {
        return 0;
      }
      place = ++latest_;
      taken_ = false;
    }
    changed_.notify_all();
    return place;
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
  ~Turn() {
    if (has_) turns_.end();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  template <class GoesOn>
  bool wait(GoesOn&& goes_on) {
    return has_ = turns_.wait(goes_on);
  }
  // After an exception this thread does not have the turn.
  template <class GoesOn>
  void give_way(GoesOn&& goes_on) {
    has_ = false;
    has_ = turns_.give_way(goes_on);
  }

 private:
  Turns& turns_;
  bool has_ = false;
};

}  // namespace trl::base
