// The listener's thread: functions that it runs, and the bell that wakes it.
#pragma once
#include <functional>
#include <mutex>

#include "serve/http/boost.h"

namespace trl::serve {

// Runs functions on the listener's thread, until it has ended.
class Loop {
 public:
  net::io_context& io() { return io_; }
  void post(std::function<void()> body);  // any thread; dropped after close()
  void close();

 private:
  net::io_context io_{1};
  std::mutex mutex_;
  bool closed_ = false;
};

// Wakes the listener's thread; without any memory.
class Bell {
 public:
  explicit Bell(net::io_context& io);  // throws Error(io)
  void ring() noexcept;                // any thread
  void hush() noexcept;                // it has been heard
  net::posix::stream_descriptor& descriptor() { return descriptor_; }

 private:
  net::posix::stream_descriptor descriptor_;
  const int fd_;
};

}  // namespace trl::serve
