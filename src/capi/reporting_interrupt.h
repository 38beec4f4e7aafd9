// The interrupt of a call that also reports the progress of the call to the callback of its runtime.
#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "capi/call_interrupt.h"
#include "trl/trl.h"

namespace trl::capi {

template <class Function>
struct Callback;
using ProgressCallback = Callback<trl_progress_fn>;

class ReportingInterrupt final : public Interrupt {
 public:
  ReportingInterrupt() : Interrupt(Of::call) {}
  // Reports this thread's call to the callback from here on, whenever the call polls; null: stops.
  void report_to(std::shared_ptr<const ProgressCallback> callback) noexcept;
  // The same for a call of a trainer, which reports only its saving.
  void report_saving_to(std::shared_ptr<const ProgressCallback> callback) noexcept;
  void progress(std::string_view phase, int64_t done, int64_t total) noexcept override;

 private:
  void watch() noexcept override;
  bool is_time() const noexcept;
  void tell() noexcept;
  std::shared_ptr<const ProgressCallback> callback_;
  std::thread::id thread_;
  bool only_saving_ = false;
  std::string phase_;
  int64_t done_ = 0, total_ = -1;
  std::chrono::steady_clock::time_point told_{};
  bool telling_ = false;
};

}  // namespace trl::capi
