// report_to html: report.html in output_dir, one file that needs no other: the curves and the facts of the
// run. Written from the whole log_history: with the first record, at most once a minute after that, with
// every checkpoint, and when the run is over or paused. The page reloads itself while the run is in progress.
#include "report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <optional>

#include "base/files/files.h"
#include "base/memory/system_memory.h"
#include "base/text/number.h"
#include "report/chart.h"

namespace trl::report {

namespace {

using Clock = std::chrono::steady_clock;

struct Curve {
  std::string_view metric;
  std::string_view name = "train";
};

// Metrics that one chart shows, each with its eval_ counterpart. A metric that no line names has its own
// chart.
struct ChartOf {
  std::string_view title;
  std::vector<Curve> lines;
  bool from_zero = false;
};

constexpr std::string_view kThroughput = "tokens per second";  // not a metric of any record
constexpr std::string_view kEval = "eval_";
constexpr auto kRewritten = std::chrono::minutes(1);
constexpr int kReloadSeconds = 30;

const std::vector<ChartOf>& charts() {
  static const std::vector<ChartOf> all = {
      {"Loss", {{"loss"}}},
      {"Learning rate", {{"learning_rate"}}, true},
      {"Gradient norm", {{"grad_norm"}}, true},
      {"Tokens per second", {{kThroughput}}, true},
      {"Token accuracy", {{"mean_token_accuracy"}}},
      {"Standard deviation of rewards", {{"reward_std"}}, true},
      {"Groups without spread, of 1", {{"frac_reward_zero_std"}}, true},
      {"Tokens of completions",
       {{"completions/mean_length", "mean"},
        {"completions/min_length", "least"},
        {"completions/max_length", "most"}},
       true},
      {"Tokens of completions that ended",
       {{"completions/mean_terminated_length", "mean"},
        {"completions/min_terminated_length", "least"},
        {"completions/max_terminated_length", "most"}},
       true},
      {"Completions that were cut, of 1", {{"completions/clipped_ratio"}}, true},
      {"Rewards", {{"rewards/chosen", "chosen"}, {"rewards/rejected", "rejected"}}},
      {"Reward margin", {{"rewards/margins"}}},
      {"Reward accuracy", {{"rewards/accuracies"}}},
      {"Scores", {{"max_reward", "max"}, {"mean_reward", "mean"}, {"min_reward", "min"}}},
      {"Score margin", {{"margin"}}},
      {"Accuracy", {{"accuracy"}}},
      {"Log-probabilities", {{"logps/chosen", "chosen"}, {"logps/rejected", "rejected"}}},
      {"Logits", {{"logits/chosen", "chosen"}, {"logits/rejected", "rejected"}}},
      {"KL", {{"kl"}}},
      {"Entropy", {{"entropy"}}},
      {"Router loss", {{"aux_loss"}}},
      {"Shared tokens", {{"shared_tokens"}}, true},
  };
  return all;
}

// Says whether a metric has no chart: numbers shown above the charts, and counters and times, for which a
// curve adds nothing.
bool has_no_chart(std::string_view metric) {
  constexpr std::string_view kNames[] = {
      "step",       "epoch",      "num_tokens",           "num_input_tokens_seen",
      "total_flos", "train_loss", "predicted_peak_bytes", "peak_resident_bytes",
      "step_time"};
  return std::find(std::begin(kNames), std::end(kNames), metric) != std::end(kNames) ||
         metric.ends_with("runtime") || metric.ends_with("_per_second");
}

std::string_view without_eval(std::string_view metric) {
  return metric.starts_with(kEval) ? metric.substr(kEval.size()) : metric;
}

// Returns NAME of rewards/NAME and this ending; nullopt: the metric is another one.
std::optional<std::string> reward_of(std::string_view metric, std::string_view ending) {
  constexpr std::string_view kRewards = "rewards/";
  if (!metric.starts_with(kRewards) || !metric.ends_with(ending)) return {};
  return std::string(metric.substr(kRewards.size(), metric.size() - kRewards.size() - ending.size()));
}

// Returns the metrics that charts() does not name, in the order of their first appearance.
std::vector<std::string> other_metrics(const std::vector<telemetry::Record>& history) {
  std::vector<std::string> others;
  const auto is_named = [](std::string_view metric) {
    return std::ranges::any_of(charts(), [&](const ChartOf& chart) {
      return std::ranges::any_of(chart.lines, [&](const Curve& line) { return line.metric == metric; });
    });
  };
  for (const telemetry::Record& record : history) {
    for (const telemetry::Entry& entry : record.entries()) {
      const std::string_view metric = without_eval(entry.name);
      if (has_no_chart(metric) || is_named(metric) || reward_of(metric, "/std")) continue;
      if (std::ranges::find(others, metric) == others.end()) others.emplace_back(metric);
    }
  }
  return others;
}

constexpr std::string_view kChartStyle = R"css(.legend { float: right; }
.legend i { display: inline-block; width: 16px; border-top: 3px solid; margin: 0 5px 4px 12px; }
.first { color: var(--first); } .second { color: var(--second); } .third { color: var(--third); }
i.eval { border-top-style: dotted; }
text.y { text-anchor: end; } text.x { text-anchor: middle; }
.grid { stroke: var(--rule); } .axis, .tick { stroke: var(--faint); }
.line { fill: none; stroke: currentColor; stroke-width: 2; stroke-linejoin: round; }
.line.eval { stroke-dasharray: 2 4; }
.dot rect { fill: transparent; } .dot circle { fill: currentColor; opacity: 0; }
.dot.eval circle, .dot.lost circle { opacity: 1; } .dot.lost circle { fill: var(--lost); }
.samples { margin-bottom: 14px; }
.samples td { white-space: pre-wrap; }
.dot:hover circle { opacity: 1; stroke: var(--card); stroke-width: 2; r: 5px; }
)css";

const double* find(const telemetry::Record& record, std::string_view name) {
  for (const telemetry::Entry& entry : record.entries())
    if (entry.name == name) return &entry.value;
  return nullptr;
}

const double* last(const std::vector<telemetry::Record>& history, std::string_view name) {
  for (auto record = history.rbegin(); record != history.rend(); ++record)
    if (const double* value = find(*record, name)) return value;
  return nullptr;
}

Series series(const std::vector<telemetry::Record>& history, std::string_view metric, std::string name,
              std::string style) {
  Series out{std::move(name), {}, std::move(style)};
  for (const telemetry::Record& record : history) {
    const double* value = find(record, metric);
    const double* step = find(record, "step");
    if (value != nullptr && step != nullptr) out.points.push_back({*step, *value});
  }
  return out;
}

std::string utc_time() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02} UTC", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min);
}

std::string table(std::string_view title, const telemetry::Facts& rows) {
  if (rows.empty()) return {};
  std::string out = fmt::format("<section class=\"card\"><h2>{}</h2><table>\n", title);
  for (const auto& [name, value] : rows)
    out += fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", html_text(name), html_text(value));
  return out + "</table></section>\n";
}

std::string card(const Chart& chart) {
  if (chart.series.empty()) return {};
  std::string legend;
  for (const Series& one : chart.series) legend += fmt::format("<i class=\"{}\"></i>{}", one.style, one.name);
  if (chart.series.size() == 1) legend.clear();
  return fmt::format("<section class=\"card\"><div class=\"legend\">{}</div><h2>{}</h2>\n{}</section>\n",
                     legend, html_text(chart.title), to_svg(chart));
}

class Report final : public telemetry::Recorder {
 public:
  explicit Report(const telemetry::RecordTo& to)
      : to_(to), path_(base::join_path(to.output_dir, "report.html")) {}
  ~Report() override {
    if (!open_) return;
    try {
      write("left before its end");
    } catch (const std::exception&) {
      open_ = false;  // nobody is left to report the error to
    }
  }
  std::string_view name() const override { return "html"; }

  void begin(const telemetry::TrainerState& state) override { state_ = state; }

  void add(const telemetry::TrainerState& state) override {
    follow(state);
    state_.log_history.push_back(state.log_history.back());
    open_ = true;
    if (!written_ || Clock::now() - *written_ >= kRewritten) write_running();
  }

  void saved(const telemetry::TrainerState& state) override {
    follow(state);
    write_running();
  }

  void close(const telemetry::TrainerState& state, std::string_view outcome) override {
    follow(state);
    write(outcome);
  }

 private:
  // Copies everything except the records.
  void follow(const telemetry::TrainerState& state) {
    state_.global_step = state.global_step;
    state_.seconds = state.seconds;
    state_.speeds = state.speeds;
  }

  void write(std::string_view outcome) {
    base::replace_file(path_, page(outcome, 0));
    open_ = false;
  }

  void write_running() {
    base::replace_file(path_, page("running", kReloadSeconds));
    written_ = Clock::now();
  }

  std::string numbers() const {
    const std::vector<telemetry::Record>& history = state_.log_history;
    telemetry::Facts shown;
    const auto add = [&](const char* name, const double* value) {
      if (value != nullptr) shown.emplace_back(name, base::short_number(*value));
    };
    add("last training loss", last(history, "loss"));
    add("mean training loss", last(history, "train_loss"));
    add("last evaluation loss", last(history, "eval_loss"));
    shown.emplace_back("steps", fmt::format("{} of {}", state_.global_step, state_.max_steps));
    if (const double* tokens = last(history, "num_tokens"))
      shown.emplace_back("tokens", grouped(static_cast<int64_t>(*tokens)));
    shown.emplace_back("time", base::duration_text(state_.seconds));
    shown.emplace_back("peak resident memory",
                       fmt::format("{:.2f} GB", static_cast<double>(base::peak_resident_bytes()) / 1e9));
    return html_numbers(shown);
  }

  // Returns the lines that have points: training, and evaluation in the same colour, or in the next colour if
  // training has only one line.
  Chart chart(const ChartOf& of) const {
    constexpr const char* kColours[] = {"first", "second", "third"};
    Chart out{std::string(of.title), {}, of.from_zero};
    const auto add = [&](Series one) {
      if (!one.points.empty()) out.series.push_back(std::move(one));
    };
    for (size_t i = 0; i < of.lines.size(); ++i) {
      const auto& [metric, name] = of.lines[i];
      const bool alone = of.lines.size() == 1;
      if (metric == kThroughput) {
        Series speeds{"train", {}, "first"};
        for (const telemetry::Speed& speed : state_.speeds)
          speeds.points.push_back({static_cast<double>(speed.step), speed.tokens_per_second});
        add(std::move(speeds));
        continue;
      }
      const std::string colour = kColours[i % 3], evaluated = kColours[(alone ? i + 1 : i) % 3];
      add(series(state_.log_history, metric, std::string(name), colour));
      add(series(state_.log_history, fmt::format("{}{}", kEval, metric),
                 alone ? "eval" : fmt::format("eval {}", name), evaluated + " eval"));
    }
    return out;
  }

  // Returns the chart of a metric that charts() does not name. A reward's mean has that of its deviation,
  // too.
  Chart chart_of(const std::string& metric) const {
    const std::optional<std::string> reward = reward_of(metric, "/mean");
    if (!reward) return chart({metric, {{metric}}});
    const std::string title = "Reward " + *reward, deviation = fmt::format("rewards/{}/std", *reward);
    return chart({title, {{metric, "mean"}, {deviation, "deviation"}}});
  }

  std::string page(std::string_view outcome, int reload_seconds) const {
    const std::vector<telemetry::Record>& history = state_.log_history;
    std::string out = numbers() + "<div class=\"charts\">\n";
    for (const ChartOf& of : charts()) out += card(chart(of));
    for (const std::string& metric : other_metrics(history)) out += card(chart_of(metric));
    out += "</div>\n";
    if (!to_.scored.empty()) out += scored_section(telemetry::read_scored(to_.scored));
    if (!to_.samples.empty()) out += samples_section(telemetry::read_samples(to_.samples));
    out += "<div class=\"tables\">\n" + table("Run", to_.facts) +
           table("Options that differ from their defaults", to_.options) +
           (to_.memory ? table("Memory, predicted and measured", to_.memory()) : std::string()) + "</div>\n";
    out += "<footer>The pointer on a curve shows its values.</footer>\n";
    return html_page(to_.title, fmt::format("{} &middot; {}", html_text(outcome), utc_time()), out,
                     kChartStyle, reload_seconds);
  }

  const telemetry::RecordTo to_;
  const std::string path_;
  telemetry::TrainerState state_;  // with a separate history, for a report after the trainer is gone
  std::optional<Clock::time_point> written_;  // while the run is in progress
  bool open_ = false;                         // the report does not say yet how the run ended
};

}  // namespace

std::unique_ptr<telemetry::Recorder> make_html(const telemetry::RecordTo& to) {
  return std::make_unique<Report>(to);
}

}  // namespace trl::report
