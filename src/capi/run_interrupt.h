// The interrupt of a trainer's calls. It also tells the runtime's progress callback what is being saved.
#pragma once
#include <chrono>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

#include "capi/call_interrupt.h"
#include "capi/runtime.h"

namespace trl::capi {

class RunInterrupt final : public Interrupt {
 public:
  // A call begins, on this thread.
  void tell(std::shared_ptr<const ProgressCallback> callback) noexcept {
    callback_ = std::move(callback);
    thread_ = std::this_thread::get_id();
  }
  void progress(std::string_view phase, int64_t done, int64_t total) noexcept override;

 private:
  std::shared_ptr<const ProgressCallback> callback_;  // or null
  std::thread::id thread_;
  std::chrono::steady_clock::time_point told_{};
};

}  // namespace trl::capi
