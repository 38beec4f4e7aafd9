// Reports the progress of calls that open or make something for a runtime to its progress callback.
#pragma once
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "capi/call_interrupt.h"
#include "capi/callback.h"
#include "capi/runtime.h"

namespace trl::capi {

// One such call. The callback runs on the call's own thread, whenever that polls.
class Watched final : public Interrupt {
 public:
  explicit Watched(std::shared_ptr<const ProgressCallback> callback);
  void progress(std::string_view phase, int64_t done, int64_t total) noexcept override;

 private:
  void watch() noexcept override;
  void tell() noexcept;
  const std::shared_ptr<const ProgressCallback> callback_;
  const std::thread::id thread_ = std::this_thread::get_id();
  std::string phase_;
  int64_t done_ = 0, total_ = -1;
  std::chrono::steady_clock::time_point told_{};
  bool telling_ = false;
};

// Runs body, which opens or makes something for a runtime.
template <class Body>
auto watched(Runtime& runtime, Body&& body) {
  auto callback = runtime.progress();
  if (callback == nullptr || base::thread_interrupt() == nullptr) return body();
  Watched call(std::move(callback));
  const base::InterruptScope interrupted_by(&call);
  return body();
}

}  // namespace trl::capi
