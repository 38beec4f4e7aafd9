#include "cli/hub/meter.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "cli/terminal.h"

namespace trl::cli::hub {

namespace {

std::string size_text(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value >= 1e9) return fmt::format("{:.2f} GB", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.1f} MB", value / 1e6);
  return fmt::format("{:.1f} kB", value / 1e3);
}

std::string count_text(size_t files) { return fmt::format("{} file{}", files, files == 1 ? "" : "s"); }

}  // namespace

Meter::Meter(std::string name, size_t files, int64_t bytes)
    : name_(std::move(name)),
      files_(files),
      bytes_(bytes),
      terminal_(isatty(STDERR_FILENO) != 0 && spdlog::should_log(spdlog::level::info)) {
  if (!terminal_) spdlog::info("{}: downloading {}, {}", name_, count_text(files_), size_text(bytes_));
}

Meter::~Meter() { pause(); }

void Meter::had(int64_t bytes) { had_ += bytes; }

void Meter::came(int64_t bytes) {
  came_ += bytes;
  draw();
}

void Meter::lost(int64_t bytes) { had_ -= bytes; }

void Meter::pause() const {
  if (terminal_) std::fputs("\r\x1b[K", stderr);
}

void Meter::draw(bool now) {
  if (!terminal_ || (!now && Clock::now() - drawn_ < std::chrono::milliseconds(100))) return;
  drawn_ = Clock::now();
  const double seconds = std::chrono::duration<double>(drawn_ - start_).count();
  const double speed = seconds > 0.5 ? static_cast<double>(came_) / seconds : 0;
  const int64_t done = had_ + came_;
  std::string tail =
      fmt::format("  {} of {} files  {} of {}", files_done_, files_, size_text(done), size_text(bytes_));
  if (speed > 0) {
    tail += fmt::format("  {}/s  {} left", size_text(static_cast<int64_t>(speed)),
                        duration(static_cast<double>(std::max<int64_t>(bytes_ - done, 0)) / speed));
  }
  const auto width = static_cast<size_t>(std::max(1, columns(STDERR_FILENO) - 1));
  const size_t room = width > tail.size() ? width - tail.size() : 0;
  std::string line = (name_.size() > room ? name_.substr(name_.size() - room) : name_) + tail;
  line.resize(std::min(line.size(), width));
  std::fprintf(stderr, "\r\x1b[K%s", line.c_str());
}

void Meter::finish() {
  pause();
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  spdlog::info("{}: downloaded {}, {} in {}", name_, count_text(files_), size_text(came_),
               time_text(seconds));
}

}  // namespace trl::cli::hub
