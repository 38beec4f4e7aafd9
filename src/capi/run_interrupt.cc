#include "capi/run_interrupt.h"

#include <string>

#include "capi/callback.h"

namespace trl::capi {

namespace {
constexpr auto kBetween = std::chrono::milliseconds(50);  // two calls of the callback
}

void RunInterrupt::progress(std::string_view phase, int64_t done, int64_t total) noexcept {
  if (phase != "save" || callback_ == nullptr || std::this_thread::get_id() != thread_) return;
  const auto now = std::chrono::steady_clock::now();
  if (done > 0 && done < total && now - told_ < kBetween) return;
  told_ = now;
  try {
    const std::string name(phase);
    const int32_t answer = call_host("progress", [&] {
      return callback_->function(callback_->user_data.get(), name.c_str(), done, total);
    });
    if (answer < 0) fail_callback("progress", answer);
    if (answer > 0) cancel();
  } catch (...) {
    keep_failure(std::current_exception());
  }
}

}  // namespace trl::capi
