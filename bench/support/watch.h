// The most that a number reaches while something runs.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

namespace trl::bench {

class Watch {
 public:
  // measure() is called again and again, `pause` apart.
  Watch(std::function<long()> measure, std::chrono::milliseconds pause)
      : measure_(std::move(measure)), before_(measure_()), most_(before_) {
    thread_ = std::thread([this, pause] {
      while (!done_) {
        most_ = std::max<long>(most_, measure_());
        std::this_thread::sleep_for(pause);
      }
    });
  }
  // Ends the watch.
  long grown() {
    done_ = true;
    thread_.join();
    return std::max<long>(most_, measure_()) - before_;
  }

 private:
  const std::function<long()> measure_;
  const long before_;
  std::atomic<long> most_;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace trl::bench
