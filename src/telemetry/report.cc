// report_to html: report.html in output_dir, one file that needs no other: the curves of the run, and what it
// was. Written when a run is over or stands still, from the whole log_history; only the throughput, which
// takes clock times, begins where this process began.
#include <chrono>
#include <cmath>
#include <ctime>

#include "base/files.h"
#include "base/resident.h"
#include "telemetry/chart.h"
#include "telemetry/page.h"
#include "telemetry/recorder.h"

namespace trl::telemetry {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kChartStyle = R"css(.legend { float: right; }
.legend i { display: inline-block; width: 14px; height: 3px; border-radius: 2px; margin: 0 5px 3px 12px; }
i.train { background: var(--train); } i.eval { background: var(--eval); }
text.y { text-anchor: end; } text.x { text-anchor: middle; }
.grid { stroke: var(--rule); } .axis, .tick { stroke: var(--faint); }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; }
.line.train { stroke: var(--train); } .line.eval { stroke: var(--eval); }
.dot rect { fill: transparent; } .dot circle { opacity: 0; }
.dot.train circle { fill: var(--train); } .dot.eval circle, .dot.lost circle { opacity: 1; }
.dot.eval circle { fill: var(--eval); } .dot.lost circle { fill: var(--lost); }
.dot:hover circle { opacity: 1; stroke: var(--card); stroke-width: 2; r: 5px; }
)css";

const double* find(const Record& record, std::string_view name) {
  for (const Entry& entry : record.entries()) {
    if (entry.name == name) return &entry.value;
  }
  return nullptr;
}

const double* last(const std::vector<Record>& history, std::string_view name) {
  for (auto record = history.rbegin(); record != history.rend(); ++record) {
    if (const double* value = find(*record, name)) return value;
  }
  return nullptr;
}

Series series(const std::vector<Record>& history, std::string_view metric, std::string name) {
  Series out{std::move(name), {}};
  for (const Record& record : history) {
    const double* value = find(record, metric);
    const double* step = find(record, "step");
    if (value != nullptr && step != nullptr) out.points.push_back({*step, *value});
  }
  return out;
}

std::string duration(double seconds) {
  const auto total = static_cast<int64_t>(seconds + 0.5);
  if (seconds < 10) return short_number(seconds, 2) + " s";
  if (total < 60) return fmt::format("{} s", total);
  if (total < 3600) return fmt::format("{} min {} s", total / 60, total % 60);
  return fmt::format("{} h {} min", total / 3600, total / 60 % 60);
}

std::string utc_time() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02} UTC", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min);
}

std::string table(std::string_view title, const Facts& rows) {
  if (rows.empty()) return {};
  std::string out = fmt::format("<section class=\"card\"><h2>{}</h2><table>\n", title);
  for (const auto& [name, value] : rows)
    out += fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", html_text(name), html_text(value));
  return out + "</table></section>\n";
}

std::string card(const Chart& chart) {
  bool empty = true;
  std::string legend;
  for (const Series& one : chart.series) {
    if (one.points.empty()) continue;
    empty = false;
    legend += fmt::format("<i class=\"{}\"></i>{}", one.name, one.name);
  }
  if (empty) return {};
  if (chart.series.size() < 2 || chart.series[1].points.empty()) legend.clear();
  return fmt::format("<section class=\"card\"><div class=\"legend\">{}</div><h2>{}</h2>\n{}</section>\n",
                     legend, html_text(chart.title), to_svg(chart));
}

class Report final : public Recorder {
 public:
  explicit Report(const RecordTo& to) : to_(to), path_(base::join_path(to.output_dir, "report.html")) {}
  ~Report() override {
    if (!open_) return;
    try {
      write("left before its end");
    } catch (const std::exception&) {
      open_ = false;  // nobody is left to tell
    }
  }
  std::string_view name() const override { return "html"; }

  void begin(const TrainerState& state) override {
    state_ = state;
    started_ = mark_ = Clock::now();
    if (const double* tokens = last(state.log_history, "num_tokens")) tokens_ = *tokens;
  }

  void add(const TrainerState& state) override {
    state_.global_step = state.global_step;
    state_.log_history.push_back(state.log_history.back());
    measure(state_.log_history.back());
    open_ = true;
  }

  void close(const TrainerState& state, std::string_view outcome) override {
    state_.global_step = state.global_step;
    write(outcome);
  }

 private:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - started_).count(); }

  // Tokens a second since the record before; the time of evaluations is left out.
  void measure(const Record& record) {
    if (const double* pause = find(record, "eval_runtime"))
      mark_ += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*pause));
    const double* tokens = find(record, "num_tokens");
    if (tokens == nullptr || find(record, "loss") == nullptr) return;
    const double passed = std::chrono::duration<double>(Clock::now() - mark_).count();
    if (passed > 0) throughput_.points.push_back({*find(record, "step"), (*tokens - tokens_) / passed});
    tokens_ = *tokens;
    mark_ = Clock::now();
  }

  void write(std::string_view outcome) {
    base::replace_file(path_, page(outcome));
    open_ = false;
  }

  std::string numbers() const {
    const std::vector<Record>& history = state_.log_history;
    Facts shown;
    const auto add = [&](const char* name, const double* value) {
      if (value != nullptr) shown.emplace_back(name, short_number(*value));
    };
    add("last training loss", last(history, "loss"));
    add("mean training loss", last(history, "train_loss"));
    add("last evaluation loss", last(history, "eval_loss"));
    shown.emplace_back("steps", fmt::format("{} of {}", state_.global_step, state_.max_steps));
    if (const double* tokens = last(history, "num_tokens"))
      shown.emplace_back("tokens", grouped(static_cast<int64_t>(*tokens)));
    shown.emplace_back("time", duration(seconds()));
    shown.emplace_back("peak resident memory",
                       fmt::format("{:.2f} GB", static_cast<double>(base::peak_resident_bytes()) / 1e9));
    return html_numbers(shown);
  }

  std::string page(std::string_view outcome) const {
    const std::vector<Record>& history = state_.log_history;
    std::string out = numbers() + "<div class=\"charts\">\n";
    out += card({"Loss", {series(history, "loss", "train"), series(history, "eval_loss", "eval")}, false});
    out += card({"Learning rate", {series(history, "learning_rate", "train")}, true});
    out += card({"Gradient norm", {series(history, "grad_norm", "train")}, true});
    out += card({"Tokens per second", {throughput_}, true});
    out += card({"Token accuracy",
                 {series(history, "mean_token_accuracy", "train"),
                  series(history, "eval_mean_token_accuracy", "eval")},
                 false});
    out += card(
        {"Entropy", {series(history, "entropy", "train"), series(history, "eval_entropy", "eval")}, false});
    out += "</div>\n<div class=\"tables\">\n" + table("Run", to_.facts) +
           table("Options that differ from their defaults", to_.options) +
           (to_.memory ? table("Memory, predicted and measured", to_.memory()) : std::string()) + "</div>\n";
    out += "<footer>The pointer on a curve shows its values.</footer>\n";
    return html_page(to_.title, fmt::format("{} &middot; {}", html_text(outcome), utc_time()), out,
                     kChartStyle);
  }

  const RecordTo to_;
  const std::string path_;
  TrainerState state_;  // with a history of its own, for a report after the trainer is gone
  Series throughput_{"train", {}};
  Clock::time_point started_ = Clock::now(), mark_ = started_;
  double tokens_ = 0;
  bool open_ = false;  // a record is in no report yet
};

}  // namespace

std::unique_ptr<Recorder> make_html(const RecordTo& to) { return std::make_unique<Report>(to); }

}  // namespace trl::telemetry
