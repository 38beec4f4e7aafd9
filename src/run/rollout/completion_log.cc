#include "run/rollout/completion_log.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/files/files.h"
#include "base/text/number.h"
#include "io/arrow.h"
#include "run/rollout/json_number.h"
#include "telemetry/scored.h"

namespace trl::run {

namespace {

constexpr std::string_view kTrain = "train", kEval = "eval";

// Returns a value with integers beyond 64 bits as float64, which tables can hold.
base::Json in_table(base::Json value) {
  if (const auto digits = base::large_integer(value)) return base::parse_double(*digits).value_or(0);
  if (value.is_structured())
    for (base::Json& item : value) item = in_table(std::move(item));
  return value;
}

bool of_evaluation(const engine::Event& event) {
  return std::ranges::any_of(event.metrics,
                             [](const engine::Metric& metric) { return metric.name.starts_with("eval_"); });
}

std::vector<size_t> first_of_each_prompt(const std::vector<base::Json>& rows) {
  std::vector<size_t> first;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto same = [&](size_t other) { return rows[other]["prompt"] == rows[i]["prompt"]; };
    if (std::ranges::none_of(first, same)) first.push_back(i);
  }
  return first;
}

#ifdef TRL_ARROW
constexpr std::string_view kEnding = "parquet";
void write_rows(const std::string& path, std::span<const base::Json> rows) { io::write_parquet(path, rows); }
#else
constexpr std::string_view kEnding = "jsonl";
void write_rows(const std::string& path, std::span<const base::Json> rows) {
  std::string lines;
  for (const base::Json& row : rows) lines += row.dump() + "\n";
  base::replace_file(path, lines);
}
#endif

}  // namespace

CompletionLog::CompletionLog(Environment& environment, const config::RunOptions& options)
    : environment_(environment),
      options_(config::completion_records(options.config, options.arguments.online)),
      reports_(std::ranges::find(options.arguments.report_to, "html") != options.arguments.report_to.end()),
      output_dir_(options.arguments.output_dir),
      most_(static_cast<size_t>(options.arguments.online.generation_batch_size)),
      most_samples_(static_cast<size_t>(options.arguments.per_device_eval_batch_size)),
      seed_(static_cast<uint64_t>(options.arguments.seed)),
      chance_(seed_) {}

void CompletionLog::start(std::string_view mode) {
  if (mode == kEval) tables_.erase(std::string(mode));
}

void CompletionLog::add(std::string_view mode, const Answers& answers, const engine::Rewards& rewards,
                        const reward::Columns& extras, std::span<const float> advantages) {
  const bool logged = options_.logged && (mode == kEval || !options_.samples);
  if (!logged && !reports_) return;
  if (reports_ && tables_.empty()) base::remove_tree(telemetry::scored_path(output_dir_));  // of another run
  Table& table = tables_[std::string(mode)];
  table.rewards = rewards.names;
  table.weights = rewards.weights;
  table.extras = base::Json::array();
  for (const auto& [name, unused] : extras) table.extras.push_back(name);
  const size_t functions = rewards.names.size();
  for (size_t i = 0; i < answers.size(); ++i) {
    const reward::Completion& own = answers[i];
    base::Json& row = table.rows.emplace_back(base::Json{{"step", 0}});
    row["prompt"] = own.prompt != nullptr ? in_table(*own.prompt) : base::Json();
    row["completion"] = own.messages != nullptr ? in_table(*own.messages) : base::Json(std::string(own.text));
    for (size_t f = 0; f < functions; ++f) row[rewards.names[f]] = json_of(rewards.values[i * functions + f]);
    for (const auto& [name, column] : extras) row[name] = column[i];
    if (!advantages.empty()) row["advantage"] = advantages[i];
  }
  const size_t most = options_.samples && mode == kEval ? most_samples_ : most_;
  if (table.rows.size() > most)
    table.rows.erase(table.rows.begin(), table.rows.end() - static_cast<int64_t>(most));
}

CompletionLog::Table* CompletionLog::due(std::string_view mode, int64_t step) {
  const auto found = tables_.find(mode);
  if (found == tables_.end() || found->second.written_at == step) return nullptr;
  Table& table = found->second;
  if (options_.samples && mode == kEval && table.written_at >= 0) return nullptr;  // there are no new ones
  table.written_at = step;
  for (base::Json& row : table.rows) row["step"] = step;
  return &table;
}

std::string CompletionLog::at_record(const engine::Event& event) {
  std::string_view mode = of_evaluation(event) ? kEval : kTrain;
  Table* table = due(mode, event.step);
  if (table != nullptr && reports_ && mode == kTrain) write_for_report(*table);
  if (options_.samples) table = due(mode = kEval, event.step);
  if (table == nullptr || !options_.logged) return {};
  write(mode, *table);
  const std::vector<base::Json> shown = to_show(*table);
  if (shown.empty()) return {};
  return base::Json{{"mode", mode}, {"rewards", table->rewards}, {"extras", table->extras}, {"rows", shown}}
      .dump();
}

base::Json CompletionLog::state_of(const Table& table) {
  return {{"rewards", table.rewards},
          {"extras", table.extras},
          {"rows", table.rows},
          {"weights", table.weights},
          {"written_at", table.written_at}};
}

CompletionLog::Table CompletionLog::table_of(const base::Json& json) {
  Table table;
  json.at("rewards").get_to(table.rewards);
  json.at("extras").get_to(table.extras);
  json.at("rows").get_to(table.rows);
  json.at("weights").get_to(table.weights);
  json.at("written_at").get_to(table.written_at);
  return table;
}

base::Json CompletionLog::state() const {
  base::Json state = base::Json::object();
  for (const auto& [mode, table] : tables_) {
    if (mode == kTrain) state["table"] = state_of(table);
    if (mode == kEval && options_.samples && table.written_at < 0) state["samples"] = state_of(table);
  }
  if (!state.empty() || chance_.words() > 0) state["words"] = chance_.words();
  return state.empty() ? base::Json() : state;
}

void CompletionLog::load(const base::Json& state) {
  chance_ = base::PythonRandom(seed_);
  chance_.discard(state.at("words").get<uint64_t>());
  const auto load_table = [&](std::string_view mode, const char* name) {
    tables_.erase(std::string(mode));
    if (state.contains(name)) tables_[std::string(mode)] = table_of(state.at(name));
  };
  load_table(kTrain, "table");
  if (options_.samples) load_table(kEval, "samples");
}

template <class Body>
void CompletionLog::try_to(std::string_view key, Body&& body) const {
  try {
    body();
  } catch (const Error& error) {
    environment_.log().warning("completions", "{}: {}; the run continues", key, error.message());
  }
}

void CompletionLog::write(std::string_view mode, const Table& table) const {
  const std::string name =
      fmt::format("{}completions_{:05}.{}", mode == kEval ? "eval_" : "", table.written_at, kEnding);
  const std::string folder = base::join_path(output_dir_, "completions");
  try_to(options_.samples ? "num_sample_generations" : "log_completions", [&] {
    base::make_directories(folder);
    write_rows(base::join_path(folder, name), table.rows);
  });
}

void CompletionLog::write_for_report(const Table& table) const {
  std::string lines;
  for (const base::Json& row : table.rows) {
    double sum = std::nan("");
    for (size_t f = 0; f < table.weights.size(); ++f) {
      const base::Json& reward = row[table.rewards[f].get_ref<const std::string&>()];
      if (reward.is_number()) sum = (std::isnan(sum) ? 0 : sum) + table.weights[f] * reward.get<double>();
    }
    lines += telemetry::scored_line({table.written_at, row["prompt"], row["completion"], sum});
  }
  try_to("report_to", [&] { base::replace_file(telemetry::scored_path(output_dir_), lines); });
}

// Draws as TRL does with `random`, which nothing else of a run draws from.
std::vector<base::Json> CompletionLog::to_show(const Table& table) {
  std::vector<size_t> from(table.rows.size());
  std::iota(from.begin(), from.end(), size_t{0});
  if (options_.unique_prompts) from = first_of_each_prompt(table.rows);
  const int64_t count = options_.printed.value_or(std::ssize(from));
  if (count <= 0) return {};
  std::vector<base::Json> shown;
  if (count >= std::ssize(from)) {
    for (const size_t row : from) shown.push_back(table.rows[row]);
  } else if (options_.samples) {
    shown.assign(table.rows.begin(), table.rows.begin() + count);
  } else {
    for (const size_t at : chance_.sample(from.size(), static_cast<size_t>(count)))
      shown.push_back(table.rows[from[at]]);
  }
  return shown;
}

}  // namespace trl::run
