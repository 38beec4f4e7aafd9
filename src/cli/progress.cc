#include "cli/progress.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "cli/terminal.h"

namespace trl::cli {

namespace {

bool g_drawn = false;  // the terminal shows a line that is not ended yet

// Returns the peak resident memory of this process, as other programs report it.
double peak_gb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / 1e9;
}

std::string bar(double share, int width) {
  const int full = std::clamp(static_cast<int>(share * width), 0, width);
  return "[" + std::string(static_cast<size_t>(full), '=') +
         std::string(static_cast<size_t>(width - full), ' ') + "]";
}

struct Entry {
  std::string name;
  double value;
};

std::vector<Entry> entries_of(const trl_metrics* metrics) {
  std::vector<Entry> entries;
  for (const char* name = trl_metrics_next(metrics, nullptr); name != nullptr;
       name = trl_metrics_next(metrics, name)) {
    double value = 0;
    trl_metrics_get(metrics, name, &value);
    if (std::string_view(name) != "max_steps") entries.push_back({name, value});
  }
  return entries;
}

// Returns the position of a name in a short line; the others follow these, in their own order.
size_t place(const std::string& name) {
  constexpr const char* kFirst[] = {"step",          "loss",          "eval_loss",           "train_loss",
                                    "train_runtime", "learning_rate", "mean_token_accuracy", "grad_norm",
                                    "epoch"};
  return static_cast<size_t>(std::find(std::begin(kFirst), std::end(kFirst), name) - std::begin(kFirst));
}

std::string short_name(const std::string& name) {
  if (name == "learning_rate") return "lr";
  if (name == "mean_token_accuracy") return "accuracy";
  if (name == "num_tokens") return "tokens";
  return name;
}

}  // namespace

bool shows_progress(const Config& config) {
  return isatty(STDERR_FILENO) != 0 && get(config, "disable_tqdm") != "true" &&
         get(config, "quiet") != "true";
}

void redraw(const std::string& line) {
  const auto room = static_cast<size_t>(std::max(columns(STDERR_FILENO) - 1, 1));  // a full line would wrap
  std::fputs(("\r\x1b[K" + line.substr(0, room)).c_str(), stderr);
  std::fflush(stderr);
  g_drawn = true;
}

void clear_line() {
  if (g_drawn) std::fputs("\r\x1b[K", stderr);
  g_drawn = false;
}

int32_t show_phase(void*, const char* phase, int64_t done, int64_t total) {
  const std::string_view name = phase;
  if (name == "save") {
    redraw(fmt::format("saving: {} of {} MB", done / 1000000, total / 1000000));
    if (done == total) clear_line();
    return 0;
  }
  const std::string said = name == "engine"     ? "loading the engine"
                           : name == "rows"     ? "reading rows"
                           : name == "tokenize" ? "preparing rows"
                           : name == "evaluate" ? "evaluating rows"
                           : name == "plan"     ? "rehearsing a step: tensors"
                           : name == "weights"  ? "opening the model: tensors"
                                                : std::string(name);
  const std::string of =
      total > 0 ? fmt::format("{} of {} ({}%)", done, total, done * 100 / total) : fmt::format("{}", done);
  redraw(name == "engine" ? said : said + " " + of);
  return 0;
}

Progress::Progress(bool enabled) : enabled_(enabled), terminal_(isatty(STDERR_FILENO) != 0) {}

void Progress::read(const trl_metrics* metrics) {
  double value = 0;
  if (trl_metrics_get(metrics, "step", &value) == TRL_OK) step_ = value;
  if (trl_metrics_get(metrics, "max_steps", &value) == TRL_OK) max_steps_ = value;
  if (trl_metrics_get(metrics, "num_tokens", &value) == TRL_OK) tokens_ = value;
  if (trl_metrics_get(metrics, "loss", &value) == TRL_OK) loss_ = value;
}

std::string Progress::left() const {
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const double steps = step_ - first_step_;
  return steps > 0 ? duration(elapsed / steps * std::max(0.0, max_steps_ - step_)) + " left" : "-:-- left";
}

std::string Progress::line(int width) const {
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const double share = max_steps_ > 0 ? std::min(1.0, step_ / max_steps_) : 0;
  const double tokens = tokens_ - first_tokens_;
  const std::string step = fmt::format("step {:.0f}/{:.0f}", step_, max_steps_), time = left();
  std::string percent, middle;
  const auto room = [&] {
    return width - 1 - static_cast<int>(percent.size() + step.size() + middle.size() + time.size()) - 2;
  };
  if (room() < 0) return time;
  if (room() >= 5) percent = fmt::format("{:3.0f}% ", share * 100);
  const auto add = [&](const std::string& part) {
    if (room() >= static_cast<int>(part.size()) + 2) middle += "  " + part;
  };
  if (loss_) add(fmt::format("loss {:.4f}", *loss_));
  constexpr int kWidest = 24, kLeast = 8;
  const int kept = room() >= kLeast + 3 ? kLeast + 3 : 0;  // for the bar, which then takes the remaining room
  middle += std::string(static_cast<size_t>(kept), ' ');
  const size_t before = middle.size();
  if (tokens > 0 && elapsed > 0) add(fmt::format("{:.0f} tokens/s", tokens / elapsed));
  add(fmt::format("peak {:.2f} GB", peak_gb()));
  if (kept > 0) {
    const int bar_width = std::min(kWidest, room() + kLeast);
    middle.erase(before - static_cast<size_t>(kept), static_cast<size_t>(kept));
    percent += bar(share, bar_width) + " ";
  }
  return percent + step + middle + "  " + time;
}

void Progress::draw() const {
  if (terminal_) return redraw(line(columns(STDERR_FILENO)));
  constexpr int kAll = 4096;
  std::string text = line(kAll);
  text.erase(0, text.find("step "));  // a log has no use for a bar
  std::fprintf(stderr, "%s\n", text.c_str());
}

void Progress::on_step(const trl_metrics* metrics) {
  const double before = step_;
  read(metrics);
  if (before == 0 && step_ > 1) {  // a resumed run: the earlier steps took another time
    first_step_ = step_;
    first_tokens_ = tokens_;
    start_ = std::chrono::steady_clock::now();
  }
  if (enabled_ && terminal_) draw();
}

void Progress::on_log(const trl_metrics* metrics) {
  double loss = 0;
  const bool of_steps = trl_metrics_get(metrics, "loss", &loss) == TRL_OK;  // not the summary of the run
  read(metrics);
  if (enabled_ && (terminal_ || of_steps)) draw();
}

void Progress::finish() {
  if (g_drawn) std::fputc('\n', stderr);
  g_drawn = false;
}

// Writes NaN and infinities as transformers does.
std::string json_record(const trl_metrics* metrics) {
  std::string line;
  for (const auto& [name, value] : entries_of(metrics)) {
    const std::string number = std::isnan(value)   ? "NaN"
                               : std::isinf(value) ? (value > 0 ? "Infinity" : "-Infinity")
                                                   : fmt::format("{:.9g}", value);
    line += fmt::format("{}\"{}\": {}", line.empty() ? "{" : ", ", name, number);
  }
  return line + "}\n";
}

std::string short_record(const trl_metrics* metrics, int width) {
  std::vector<Entry> entries = entries_of(metrics);
  std::ranges::stable_sort(entries,
                           [](const Entry& a, const Entry& b) { return place(a.name) < place(b.name); });
  std::string line;
  for (const auto& [name, value] : entries) {
    const std::string part = fmt::format("{} {:.4g}", short_name(name), value);
    if (!line.empty() && characters(line) + 2 + characters(part) >= width) continue;
    line += (line.empty() ? "" : "  ") + part;
  }
  return line + "\n";
}

}  // namespace trl::cli
