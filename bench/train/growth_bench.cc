// usage: growth_bench --tokenizer DIR [--tokens N ...] [--vocab N ...] [--levers [--set NAME ...]]
// How time and memory of a step grow, with small models of random weights: one document of T tokens, a
// vocabulary of V, each in a process of its own. Fits, a JSON line each, and exit status 1 when one does not
// hold: time without attention is a + b V + c T + d T V; attention is a T + b T^2; memory is
// a + b V + c T + d T V with d of no size (an array of tokens x vocabulary would be 2 bytes or more).
// --levers: the law of memory alone, under each option that changes what a step takes.
#include <filesystem>
#include <fstream>

#include "support/fit.h"
#include "support/random_model.h"
#include "support/scratch.h"
#include "train/growth_levers.h"
#include "train/sft_run.h"

namespace {

using namespace trl::bench;

constexpr int kLong = 1024;
constexpr ModelShape kSmall = {2, 256, 1024, 4, 2, 0};

struct Settings : CommonSettings {
  std::string tokenizer;
  std::vector<int64_t> tokens = {256, 512, 1024, 2048, 4096, 8192}, vocab = {32768, 65536, 131072, 262144};
  std::vector<std::string> sets;
  bool levers = false;
  int steps = 3;
  double time_bound = 0.25, memory_bound = 0.1, memory_term_bound = 0.1;
};

struct Cell {
  double tokens, vocab, rest, attention, memory;
};

void write_document(const std::string& path, int64_t tokens) {
  std::vector<int64_t> ids(static_cast<size_t>(tokens));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i % 10);  // in every vocabulary
  std::ofstream(path) << Json({{"input_ids", ids}}).dump() << "\n";
}

Cell measure(const Settings& s, const std::string& model, const std::string& rows, int64_t tokens,
             int64_t vocab, const Json& lever) {
  SftWork work{model, rows, "", {{"dtype", "bfloat16"}, {"bf16", false}}, s.steps + 1};
  work.options["max_length"] = tokens;
  work.options["gradient_checkpointing"] = false;
  work.options["per_device_train_batch_size"] = 1;
  work.options["runtime.threads"] = s.threads;
  work.options["offload_dir"] = std::filesystem::path(rows).parent_path().string();
  work.options.update(lever);
  const Json run = run_ours(work);
  if (run.at("tokens").front().get<int64_t>() != tokens)
    throw std::runtime_error("a row of " + run["tokens"].front().dump() + " tokens where " +
                             std::to_string(tokens) + " were meant");
  const std::vector<double> seconds = run.at("seconds");
  // The fastest step after the first: what disturbs a machine only adds.
  const auto fastest = std::min_element(seconds.begin() + 1, seconds.end());
  Cell cell{static_cast<double>(tokens), static_cast<double>(vocab), 0, 0, 0};
  cell.attention =
      run.at("profile").at("profile/attention").at(static_cast<size_t>(fastest - seconds.begin()));
  cell.rest = *fastest - cell.attention;
  cell.memory = run.at("peak_resident_bytes");
  print({{"bench", "growth"},
         {"tokens", tokens},
         {"vocab", vocab},
         {"seconds", *fastest},
         {"attention_seconds", cell.attention},
         {"peak_resident_bytes", cell.memory}});
  return cell;
}

std::vector<Cell> measure_all(const Settings& s, const Scratch& scratch, const Json& lever) {
  std::vector<Cell> cells;
  for (const int64_t vocab : s.vocab) {
    ModelShape shape = kSmall;
    shape.vocab_size = vocab;
    const std::string model = scratch.file("model" + std::to_string(vocab));
    if (!std::filesystem::exists(model)) write_random_model(shape, s.tokenizer, model);
    for (const int64_t tokens : s.tokens) {
      const std::string rows = scratch.file("rows.jsonl");
      write_document(rows, tokens);
      cells.push_back(measure(s, model, rows, tokens, vocab, lever));
    }
  }
  return cells;
}

using Terms = std::vector<double> (*)(const Cell&);
std::vector<double> both(const Cell& c) { return {1, c.vocab, c.tokens, c.tokens * c.vocab}; }
std::vector<double> square(const Cell& c) { return {c.tokens, c.tokens * c.tokens}; }

Json law(const char* what, const std::vector<Cell>& cells, double Cell::*value, Terms terms,
         const std::vector<const char*>& names, double bound, Fit& found) {
  std::vector<Point> points;
  for (const Cell& cell : cells) points.push_back({terms(cell), cell.*value});
  found = fit(points);
  Json line = {{"bench", "growth"}, {"what", what}};
  for (size_t i = 0; i < names.size(); ++i) line["fit"][names[i]] = found.coefficients[i];
  line["largest_relative_error"] = found.worst;
  line["bound"] = bound;
  line["holds"] = found.worst <= bound;
  return line;
}

const std::vector<const char*> kBoth = {"1", "V", "T", "T V"};

// Short documents are left out: what a kernel's start costs there is no law of growth, and the head's tile of
// logits still grows.
std::vector<Cell> longer_of(const std::vector<Cell>& cells) {
  std::vector<Cell> longer;
  std::copy_if(cells.begin(), cells.end(), std::back_inserter(longer),
               [](const Cell& cell) { return cell.tokens >= kLong; });
  return longer;
}

Json memory_law(const Settings& s, const std::vector<Cell>& cells, const char* what) {
  Fit found;
  Json memory = law(what, longer_of(cells), &Cell::memory, both, kBoth, s.memory_bound, found);
  memory["bound_of_T_V"] = s.memory_term_bound;
  memory["holds"] = memory["holds"] && found.coefficients[3] <= s.memory_term_bound;
  print(memory);
  return memory;
}

// Every law, printed; whether all hold.
bool laws(const Settings& s, const std::vector<Cell>& cells) {
  Fit found;
  const Json time =
      law("time without attention, seconds", cells, &Cell::rest, both, kBoth, s.time_bound, found);
  print(time);
  Json attention = law("attention, seconds", longer_of(cells), &Cell::attention, square, {"T", "T^2"},
                       s.time_bound, found);
  const double width = static_cast<double>(kSmall.hidden_size * kSmall.num_hidden_layers);
  attention["gflops_by_7_L_d"] = 7e-9 * width / found.coefficients[1];
  print(attention);
  const Json memory = memory_law(s, cells, "memory, bytes");
  return time["holds"] && attention["holds"] && memory["holds"];
}

bool laws_of_levers(const Settings& s, const Scratch& scratch) {
  bool all = true;
  for (const Lever& lever : levers()) {
    if (!s.sets.empty() && std::count(s.sets.begin(), s.sets.end(), lever.name) == 0) continue;
    all = memory_law(s, measure_all(s, scratch, lever.options), lever.name)["holds"] && all;
  }
  return all;
}

int run(int argc, char** argv) {
  Settings s;
  CLI::App app("How time and memory of a step grow with tokens and vocabulary");
  app.add_option("--tokenizer", s.tokenizer, "a model directory with tokenizer.json");
  app.add_option("--tokens", s.tokens, "of the document, three numbers from 1024 on at least")
      ->check(CLI::Range(16, 1 << 20));
  app.add_option("--vocab", s.vocab, "two sizes or more")->check(CLI::Range(16, 1 << 24));
  app.add_option("--steps", s.steps, "measured, after the first")->check(CLI::Range(1, 1000));
  app.add_option("--time-bound", s.time_bound, "relative error that the fits of time may have")
      ->check(CLI::PositiveNumber);
  app.add_flag("--levers", s.levers, "memory under each option that changes it");
  app.add_option("--set", s.sets, "of --levers only these, by their names");
  s.add_to(app);
  CLI11_PARSE(app, argc, argv);
  if (!s.child.empty()) return sft_child(s.child);
  if (std::count_if(s.tokens.begin(), s.tokens.end(), [](int64_t t) { return t >= kLong; }) < 3 ||
      s.vocab.size() < 2 || s.tokenizer.empty())
    throw std::runtime_error("--tokenizer, three --tokens from 1024 on and two --vocab are needed");
  const Scratch scratch(s.scratch);
  if (s.levers) return laws_of_levers(s, scratch) ? 0 : 1;
  return laws(s, measure_all(s, scratch, Json::object())) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return run_bench("growth_bench", [&] { return run(argc, argv); });
}
