// A log that keeps the warnings.
#pragma once
#include <mutex>
#include <string>
#include <vector>

#include "base/log.h"

namespace trl::test {

class Warnings final : public base::LogSink {
 public:
  void write(base::LogLevel level, std::string_view, std::string_view text) noexcept override {
    const std::lock_guard lock(mutex_);
    if (level == base::LogLevel::warning) lines.emplace_back(text);
  }
  std::vector<std::string> lines;

 private:
  std::mutex mutex_;
};

}  // namespace trl::test
