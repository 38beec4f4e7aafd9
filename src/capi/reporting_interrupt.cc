#include "capi/reporting_interrupt.h"

#include <utility>

#include "capi/callback.h"

namespace trl::capi {

namespace {
// The least time between two calls of the callback within a phase.
constexpr auto kApart = std::chrono::milliseconds(50);
constexpr std::string_view kSaving = "save";
}  // namespace

void ReportingInterrupt::report_to(std::shared_ptr<const ProgressCallback> callback) noexcept {
  callback_ = std::move(callback);
  thread_ = std::this_thread::get_id();
}

void ReportingInterrupt::report_saving_to(std::shared_ptr<const ProgressCallback> callback) noexcept {
  callback_ = std::move(callback);
  thread_ = std::this_thread::get_id();
  only_saving_ = true;
}

void ReportingInterrupt::progress(std::string_view phase, int64_t done, int64_t total) noexcept {
  if (std::this_thread::get_id() != thread_ || callback_ == nullptr || telling_ || ends()) return;
  if (only_saving_ && phase != kSaving) return;
  const bool first = phase != phase_ || (phase == kSaving && done == 0);  // of each file that is written
  try {
    phase_ = phase;
  } catch (const std::bad_alloc&) {
    return;
  }
  done_ = done;
  total_ = total;
  if (first && !only_saving_) be_watched();
  if (first || done == total || is_time()) tell();
}

// Handles a poll of any thread that works for the call.
void ReportingInterrupt::watch() noexcept {
  if (std::this_thread::get_id() == thread_ && !telling_ && is_time()) tell();
}

bool ReportingInterrupt::is_time() const noexcept {
  return std::chrono::steady_clock::now() - told_ >= kApart;
}

void ReportingInterrupt::tell() noexcept {
  telling_ = true;
  try {
    const int32_t answer = call_host("progress", [&] {
      return callback_->function(callback_->user_data.get(), phase_.c_str(), done_, total_);
    });
    if (answer < 0) fail_callback("progress", answer);
    if (answer > 0) cancel();
  } catch (...) {
    keep_failure(std::current_exception());
  }
  telling_ = false;
  told_ = std::chrono::steady_clock::now();
}

}  // namespace trl::capi
