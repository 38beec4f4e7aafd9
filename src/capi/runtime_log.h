// The log of one runtime. Lines written on a thread inside a call go to the host's callback at once; lines of
// other threads wait until a thread is inside a call. Without a callback nothing is kept.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/log.h"
#include "capi/callback.h"
#include "trl/trl.h"

namespace trl::capi {

class RuntimeLog final : public base::LogSink {
 public:
  void set(Callback<trl_log_fn> callback);
  void write(base::LogLevel level, std::string_view component, std::string_view text) noexcept override;
  void drain() noexcept;  // call on a thread inside a call

 private:
  struct Line {
    base::LogLevel level;
    std::string component, text;
  };
  using Shared = std::shared_ptr<const Callback<trl_log_fn>>;
  static void deliver(const Shared& callback, const Line& line) noexcept;
  std::mutex mutex_;
  Shared callback_;
  std::vector<Line> waiting_;
};

}  // namespace trl::capi
