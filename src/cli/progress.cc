#include "cli/progress.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

namespace trl::cli {

namespace {

std::string duration(double seconds) {
  const auto total = static_cast<int64_t>(seconds + 0.5);
  if (total >= 3600) return fmt::format("{}:{:02}:{:02}", total / 3600, total / 60 % 60, total % 60);
  return fmt::format("{}:{:02}", total / 60, total % 60);
}

// The most this process has had resident, as other programs report it.
double resident_gb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / 1e9;
}

}  // namespace

int32_t show_opening(void*, const char* phase, int64_t done, int64_t total) {
  const std::string of = total >= 0 ? fmt::format(" of {}", total) : std::string();
  std::fputs(fmt::format("\r\x1b[K{}: {}{}", phase, done, of).c_str(), stderr);
  return 0;
}

Progress::Progress(bool enabled) : enabled_(enabled), terminal_(isatty(STDERR_FILENO) != 0) {}

void Progress::clear_line() {
  if (isatty(STDERR_FILENO) != 0) std::fputs("\r\x1b[K", stderr);
}

void Progress::read(const trl_metrics* metrics) {
  double value = 0;
  if (trl_metrics_get(metrics, "step", &value) == TRL_OK) step_ = value;
  if (trl_metrics_get(metrics, "max_steps", &value) == TRL_OK) max_steps_ = value;
  if (trl_metrics_get(metrics, "num_tokens", &value) == TRL_OK) tokens_ = value;
  if (trl_metrics_get(metrics, "loss", &value) == TRL_OK) {
    loss_ = value;
    has_loss_ = true;
  }
}

void Progress::draw(bool bar) const {
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const double share = max_steps_ > 0 ? std::min(1.0, step_ / max_steps_) : 0;
  std::string line = fmt::format("step {:.0f}/{:.0f}", step_, max_steps_);
  if (bar) {
    constexpr int kWidth = 24;
    const auto full = static_cast<size_t>(share * kWidth);
    line = fmt::format("{:3.0f}% [{}{}] {}", share * 100, std::string(full, '='),
                       std::string(kWidth - full, ' '), line);
  }
  if (has_loss_) line += fmt::format("  loss {:.4f}", loss_);
  const double tokens = tokens_ - first_tokens_, steps = step_ - first_step_;
  if (tokens > 0 && elapsed > 0) line += fmt::format("  {:.0f} tokens/s", tokens / elapsed);
  line += fmt::format("  {:.2f} GB", resident_gb());
  if (steps > 0) line += fmt::format("  {} left", duration(elapsed / steps * (max_steps_ - step_)));
  std::fprintf(stderr, bar ? "\r\x1b[K%s" : "%s\n", line.c_str());
}

void Progress::on_step(const trl_metrics* metrics) {
  const double before = step_;
  read(metrics);
  if (before == 0 && step_ > 1) {  // a resumed run: what was done before took other time
    first_step_ = step_;
    first_tokens_ = tokens_;
    start_ = std::chrono::steady_clock::now();
  }
  if (enabled_ && terminal_) draw(true);
}

void Progress::on_log(const trl_metrics* metrics) {
  double loss = 0;
  const bool of_steps = trl_metrics_get(metrics, "loss", &loss) == TRL_OK;  // not the summary of the run
  read(metrics);
  if (enabled_ && (terminal_ || of_steps)) draw(terminal_);
}

void Progress::finish() {
  if (enabled_ && terminal_) std::fputc('\n', stderr);
}

}  // namespace trl::cli
