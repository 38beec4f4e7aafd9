// usage: stepping_bench --model DIR|random:qwen2.5-0.5b --dataset FILE [--columns MAP] [--tokenizer DIR]
// [--rows N] [--max_length N] [--set NAME ...] [--peer PYTHON] Full fine-tuning of one model by one
// micro-batch a step, with the gradients kept until the step, stepping inside backward, and in narrower
// types, each in a process of its own: bytes of weights, gradients and optimizer state that must be there,
// the most resident (ru_maxrss), and seconds of a step. With --peer, TRL with its defaults first, and shares
// of its peak.
#include "support/random_model.h"
#include "support/scratch.h"
#include "train/sft_run.h"

namespace {

using namespace trl::bench;

struct Settings : PeerSettings {
  std::string model, tokenizer, dataset, columns, peer;
  std::vector<std::string> sets;
  int steps = 3;
  int64_t rows = 4, max_length = 1024;
};

struct OptionSet {
  const char* name;
  Json options;
  double weight, gradient, state, table_state;  // bytes of each, of the embedding's state where it differs
};

std::vector<OptionSet> option_sets() {
  const Json float32 = {{"dtype", "float32"}, {"bf16", true}};
  const Json rounded = {{"dtype", "bfloat16"}, {"bf16", false}, {"stochastic_rounding", true}};
  const auto with = [](Json options, const Json& more) {
    options.update(more);
    return options;
  };
  const Json inside = {{"optimizer_in_backward", true}, {"max_grad_norm", 0}};
  const Json by_previous = {{"optimizer_in_backward", true}, {"clip_by_previous_norm", true}};
  const Json eight = {{"optim", "adamw_8bit"}};
  const Json all_eight = {{"optim", "adamw_8bit"}, {"optim_8bit_embeddings", true}};
  const Json in_a_file = {{"optim", "paged_adamw_8bit"}, {"optim_8bit_embeddings", true}};
  return {
      {"fp32", float32, 4, 4, 8, 8},
      {"fp32, bf16 gradients", with(float32, {{"gradient_dtype", "bfloat16"}}), 4, 2, 8, 8},
      {"fp32, inside backward", with(float32, inside), 4, 0, 8, 8},
      {"fp32, inside backward, clipped", with(float32, by_previous), 4, 0, 8, 8},
      {"bf16", rounded, 2, 2, 4, 4},
      {"bf16, inside backward", with(rounded, inside), 2, 0, 4, 4},
      {"bf16, 8-bit state, inside backward", with(with(rounded, inside), eight), 2, 0, 2, 8},
      {"bf16, all 8-bit, inside backward", with(with(rounded, inside), all_eight), 2, 0, 2, 2},
      {"bf16, all 8-bit in a file, inside backward", with(with(rounded, inside), in_a_file), 2, 0, 2, 2},
  };
}

double count_of(const Json& model, bool table) {
  const double all = model.at("parameters");
  const Json& config = model.at("config");
  const double own = config.at("vocab_size").get<double>() * config.at("hidden_size").get<double>();
  return table ? own : all - own;
}

SftWork work_of(const Settings& s, const Json& options) {
  SftWork work{s.model, s.dataset, s.columns, options, s.steps};
  work.options["max_length"] = s.max_length;
  work.options["packing"] = true;
  work.options["completion_only_loss"] = false;
  work.options["per_device_train_batch_size"] = s.rows;
  work.options["gradient_accumulation_steps"] = 1;
  work.options["gradient_checkpointing"] = true;
  work.options["runtime.threads"] = s.threads;
  return work;
}

// Prints a line of what was measured; the most resident.
double print_line(const std::vector<Json>& runs, Json line) {
  const double peak = median_of(runs, "peak_resident_bytes");
  const Speed speed = speed_of(runs);
  line.update({{"peak_resident_bytes", peak},
               {"tokens_per_second", speed.mean},
               {"tokens_per_second_smallest", speed.smallest},
               {"tokens_per_second_largest", speed.largest},
               {"losses", runs[0].at("losses")}});
  print(line);
  return peak;
}

double measure_peer(const Settings& s) {
  std::vector<Json> runs;
  for (int round = 0; round < s.rounds; ++round)
    runs.push_back(run_trl(s.peer, work_of(s, {{"dtype", "float32"}, {"bf16", true}})));
  return print_line(runs, {{"what", "TRL's defaults"}, {"by", runs[0].at("by")}});
}

// peer: TRL's peak, or 0.
void measure_set(const Settings& s, const OptionSet& set, const Json& model, double peer) {
  std::vector<Json> runs;
  for (int round = 0; round < s.rounds; ++round) runs.push_back(run_ours(work_of(s, set.options)));
  const double blocks = count_of(model, false), table = count_of(model, true);
  const double floor =
      (blocks + table) * (set.weight + set.gradient) + blocks * set.state + table * set.table_state;
  const double peak = median_of(runs, "peak_resident_bytes");
  Json line = {{"what", set.name}, {"weights_gradients_state_bytes", floor}, {"beyond_bytes", peak - floor}};
  if (peer > 0) line["share_of_peer"] = peak / peer;
  print_line(runs, std::move(line));
}

int run(int argc, char** argv) {
  Settings s;
  CLI::App app("Memory and time of a step by where the optimizer steps and in which types");
  app.add_option("--model", s.model, "directory, or random:qwen2.5-0.5b");
  app.add_option("--tokenizer", s.tokenizer, "model directory, for a random model");
  app.add_option("--dataset", s.dataset, "rows");
  app.add_option("--columns", s.columns, "dataset_columns");
  app.add_option("--peer", s.peer, "a Python that has trl");
  app.add_option("--set", s.sets, "only these option sets, by their names");
  app.add_option("--rows", s.rows, "of a step")->check(CLI::Range(1, 1 << 16));
  app.add_option("--max_length", s.max_length, "tokens of a row")->check(CLI::Range(16, 1 << 20));
  app.add_option("--steps", s.steps, "of a run")->check(CLI::Range(2, 1000));
  s.add_to(app);
  CLI11_PARSE(app, argc, argv);
  if (!s.child.empty()) return sft_child(s.child);
  if (s.model.empty() || s.dataset.empty()) throw std::runtime_error("--model and --dataset are needed");
  const Scratch scratch(s.scratch);
  if (s.model == "random:qwen2.5-0.5b") {
    s.model = scratch.file("model");
    write_random_model(kQwen2_5_0_5B, s.tokenizer, s.model);
  }
  const Json model = describe_model(s.model);
  const double peer = s.peer.empty() ? 0 : measure_peer(s);
  for (const OptionSet& set : option_sets()) {
    if (s.sets.empty() || std::count(s.sets.begin(), s.sets.end(), set.name) > 0)
      measure_set(s, set, model, peer);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return trl::bench::run_bench("stepping_bench", [&] { return run(argc, argv); });
}
