// Delivery of log lines to the host.
#include "capi/runtime_log.h"

#include "capi/process.h"

namespace trl::capi {

void RuntimeLog::set(Callback<trl_log_fn> callback) {
  Shared next;
  if (callback.function != nullptr) next = std::make_shared<const Callback<trl_log_fn>>(std::move(callback));
  const std::lock_guard lock(mutex_);
  callback_.swap(next);  // the previous one is destroyed after the lock
}

void RuntimeLog::deliver(const Shared& callback, const Line& line) noexcept {
  call_host_and_keep("log", [&] {
    callback->function(callback->user_data.get(), static_cast<int32_t>(line.level), line.component.c_str(),
                       line.text.c_str(), line.text.size());
  });
}

void RuntimeLog::write(base::LogLevel level, std::string_view component, std::string_view text) noexcept {
  try {
    {
      const std::lock_guard lock(mutex_);
      if (!callback_) return;
      waiting_.push_back({level, std::string(component), std::string(text)});
    }
    if (inside_call()) drain();
  } catch (...) {
    return;  // a line is lost if no memory is left for it
  }
}

void RuntimeLog::drain() noexcept {
  Shared callback;
  std::vector<Line> lines;
  {
    const std::lock_guard lock(mutex_);
    callback = callback_;
    lines.swap(waiting_);
  }
  if (!callback) return;
  for (const Line& line : lines) deliver(callback, line);
}

}  // namespace trl::capi
