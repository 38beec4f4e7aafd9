// The destination of log lines. There is no global logger: code that logs is given a LogSink.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <string_view>
#include <utility>

namespace trl::base {

enum class LogLevel : int32_t { debug = 0, info = 1, warning = 2, error = 3 };

class LogSink {
 public:
  virtual ~LogSink() = default;
  // any thread; text is one line of UTF-8 without the newline, valid during the call
  virtual void write(LogLevel level, std::string_view component, std::string_view text) noexcept = 0;

  template <typename... Args>
  void info(std::string_view component, fmt::format_string<Args...> text, Args&&... args) {
    write(LogLevel::info, component, fmt::format(text, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void warning(std::string_view component, fmt::format_string<Args...> text, Args&&... args) {
    write(LogLevel::warning, component, fmt::format(text, std::forward<Args>(args)...));
  }
};

class NullLog final : public LogSink {
 public:
  void write(LogLevel, std::string_view, std::string_view) noexcept override {}
};

}  // namespace trl::base
