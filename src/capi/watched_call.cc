#include "capi/watched_call.h"

namespace trl::capi {

namespace {
constexpr auto kApart = std::chrono::milliseconds(50);  // two calls of the callback within a phase
}

Watched::Watched(std::shared_ptr<const ProgressCallback> callback) : callback_(std::move(callback)) {
  be_watched();
}

void Watched::progress(std::string_view phase, int64_t done, int64_t total) noexcept {
  if (std::this_thread::get_id() != thread_ || telling_) return;
  const bool first = phase != phase_;
  try {
    phase_ = phase;
  } catch (const std::bad_alloc&) {
    return;
  }
  done_ = done;
  total_ = total;
  if (first || done == total) tell();
}

// A poll, of any thread that works for the call.
void Watched::watch() noexcept {
  if (std::this_thread::get_id() != thread_ || telling_ || phase_.empty()) return;
  if (std::chrono::steady_clock::now() - told_ >= kApart) tell();
}

void Watched::tell() noexcept {
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
