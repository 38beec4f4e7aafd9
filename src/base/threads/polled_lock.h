// Waits for a mutex that another call may hold for long, such as one that reads a file under it.
#pragma once
#include <chrono>
#include <mutex>
#include <thread>

#include "base/interrupt.h"

namespace trl::base {

// Throws Error(cancelled) if the call of this thread must end, even if the mutex is free.
inline std::unique_lock<std::mutex> polled_lock(std::mutex& mutex) {
  std::unique_lock lock(mutex, std::defer_lock);
  for (poll(); !lock.try_lock(); poll()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return lock;
}

}  // namespace trl::base
