#include "cli/records.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "cli/terminal.h"

namespace trl::cli {

namespace {

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
  std::stable_sort(entries.begin(), entries.end(),
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
