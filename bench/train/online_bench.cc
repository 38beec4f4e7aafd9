// usage: online_bench --model DIR|random:qwen2.5-0.5b [--part fit|window|update|step ...] [--peer PYTHON]
// ... GRPO through the C ABI, each run in a process of its own. JSON lines.
// fit: updates over prompts of P tokens and groups of G completions of R: seconds = alpha P + beta G R +
// gamma. window: a group in four micro-batches, shuffled, beside one, and beside rows that share nothing.
// update: steps on given completions; with --peer beside TRL, whose losses must be equal (else exit status
// 1). step: the same with completions that each side writes.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "support/fit.h"
#include "support/random_model.h"
#include "support/scratch.h"
#include "train/online_roof.h"

namespace {

using namespace trl::bench;

constexpr std::string_view kQwen = "random:qwen2.5-0.5b";

struct Settings : PeerSettings {
  std::string model, tokenizer, peer, precision = "fp32";
  std::set<std::string> parts;
  int steps = 3, peer_steps = 1, lora = 16;
  int64_t prompt = 1024, completion = 256, group = 8;
};

struct Shape {
  int64_t prompt, completion, group;
  bool varied = false;  // completions are shorter by up to a half: the loss is not 0
};

// A prompt of about as many tokens for each step.
std::string write_prompts(const Scratch& scratch, const Shape& shape, int steps) {
  std::string path = scratch.file(std::to_string(steps) + "-prompts.jsonl");
  std::ofstream file(path);
  for (int step = 0; step < steps; ++step) {
    std::string text = std::to_string(step) + ":";
    for (int64_t i = 0; i < shape.prompt - 3; ++i) text += " tide";
    file << Json({{"prompt", text}}).dump() << '\n';
  }
  return path;
}

// Completions and rewards, in the order of generation.
std::string write_rollouts(const Scratch& scratch, const Shape& shape, int steps) {
  std::string path = scratch.file(std::to_string(steps) + "-rollouts.jsonl");
  std::ofstream file(path);
  for (int64_t row = 0; row < steps * shape.group; ++row) {
    std::vector<int64_t> ids;
    const int64_t tokens = shape.completion - (shape.varied ? row % 3 * shape.completion / 4 : 0);
    for (int64_t i = 0; i < tokens; ++i) ids.push_back((row * 7919 + i * 104729 + 13) % 250);
    file << Json({{"completion_ids", ids}, {"rewards", {{"points", (row * 5 + row / shape.group) % 7}}}})
                .dump()
         << '\n';
  }
  return path;
}

SftWork work_of(const Settings& s, const Scratch& scratch, const Shape& shape, int steps, bool writes) {
  SftWork work{s.model, write_prompts(scratch, shape, steps + 1), "", {{"method", "grpo"}}, steps + 1};
  work.options.update({{"dtype", s.precision == "bf16" ? "bfloat16" : "float32"},
                       {"bf16", s.precision == "autocast"},
                       {"gradient_checkpointing", s.precision == "autocast"},
                       {"num_generations", shape.group},
                       {"per_device_train_batch_size", shape.group},
                       {"max_completion_length", shape.completion},
                       {"learning_rate", 1e-5},
                       {"shuffle_dataset", false},
                       {"runtime.threads", s.threads}});
  if (writes)
    work.options["reward_funcs"] = Json::array({"think_format_reward"});
  else
    work.options["replay_rollouts"] = write_rollouts(scratch, shape, steps + 1);
  if (s.lora > 0) add_lora(s.lora, 0, work);
  return work;
}

// Ours alone has them.
SftWork with_all_rows(SftWork work) {
  work.options["skip_silent_rows"] = false;
  return work;
}

// The median of a value of profile_parts, of our steps after the first.
double part_of(const std::vector<Json>& runs, const std::string& part) {
  std::vector<double> all;
  for (const Json& run : runs) {
    const std::vector<double> seconds = run.at("profile").at("profile/" + part);
    all.insert(all.end(), seconds.begin() + 1, seconds.end());
  }
  return median(all);
}

void fit_updates(const Settings& s, const Scratch& scratch) {
  std::vector<Point> points;
  for (const int64_t prompt : {s.prompt / 4, s.prompt}) {
    for (const int64_t group : {2, 8, 32}) {
      const Shape shape{prompt, s.completion / 4, group};
      const Json run = run_ours(with_all_rows(work_of(s, scratch, shape, s.steps, false)));
      const double seconds = part_of({run}, "update");
      const auto p = static_cast<double>(prompt), r = static_cast<double>(shape.completion * group);
      points.push_back({{p, r, 1}, seconds});
      print({{"part", "fit"},
             {"prompt", prompt},
             {"group", group},
             {"completion", shape.completion},
             {"update_seconds", seconds}});
    }
  }
  const Fit law = fit(points);
  print({{"part", "fit"},
         {"seconds_per_prompt_token", law.coefficients[0]},
         {"seconds_per_completion_token", law.coefficients[1]},
         {"seconds", law.coefficients[2]},
         {"worst_relative_error", law.worst}});
}

void compare_windows(const Settings& s, const Scratch& scratch) {
  const Shape shape{s.prompt, s.completion, s.group};
  SftWork whole = with_all_rows(work_of(s, scratch, shape, s.steps, false));
  SftWork cut = whole, apart = whole;
  cut.options["per_device_train_batch_size"] = s.group / 4;
  cut.options["gradient_accumulation_steps"] = 4;
  apart.options["share_prefix"] = false;
  std::vector<std::vector<Json>> runs(3);
  const std::vector<SftWork> works = {whole, cut, apart};
  interleave(works.size(), s.rounds, [&](size_t i) { runs[i].push_back(run_ours(works[i])); });
  const double one = part_of(runs[0], "update"), four = part_of(runs[1], "update"),
               alone = part_of(runs[2], "update");
  const auto p = static_cast<double>(s.prompt), r = static_cast<double>(s.completion),
             g = static_cast<double>(s.group);
  print({{"part", "window"},
         {"update_seconds", one},
         {"in_four_micro_batches", four},
         {"sharing_nothing", alone},
         {"times_fewer_tokens", g * (p + r) / (p + g * r)},
         {"times_faster", alone / one},
         {"kept_in_four", one / four}});
}

// Adds the shares of the roofline that our updates and whole steps reach.
void add_shares(const Settings& s, const std::vector<Json>& runs, Json& line) {
  const Json gemm = run_json({TRL_GEMM_BENCH, "--threads", std::to_string(s.threads)});
  const Architecture model = architecture_of(describe_model(s.model));
  OnlineStep step;
  step.group = static_cast<double>(s.group);
  step.longest = static_cast<double>(s.completion);
  step.written = part_of(runs, "loss_tokens");
  step.prompt = (runs.front().at("tokens").back().get<double>() - step.written) / step.group;
  if (s.lora > 0) step.adapter = runs.front().at("adapter_parameters");
  step.wide = s.precision == "fp32";
  const double update = update_roof(model, step, gemm);
  line["prompt"] = std::round(step.prompt);
  line["written"] = step.written;
  line["peak_gflops"] = gemm.at(step.wide ? "fp32_gflops" : "bf16_gflops");
  line["gb_s"] = gemm.at("gb_s");
  line["share_of_update"] = update / part_of(runs, "update");
  const bool writes = line.at("part") == "step";
  line["share_of_step"] =
      (update + (writes ? generation_roof(model, step, gemm) : 0)) / line.at("step_seconds").get<double>();
}

// Returns whether the losses are equal.
bool compare_steps(const Settings& s, const Scratch& scratch, bool writes) {
  const Shape shape{s.prompt, s.completion, s.group, true};
  const std::string part = writes ? "step" : "update";
  const SftWork ours = with_all_rows(work_of(s, scratch, shape, s.steps, writes)),
                theirs = work_of(s, scratch, shape, s.peer_steps, writes);
  bool equal = true;
  if (!writes && !s.peer.empty()) {
    Json line = equality_line(s.precision, run_ours(with_all_rows(theirs)), run_trl(s.peer, theirs));
    line["part"] = part;
    print(line);
    equal = line.at("equal");
  }
  std::vector<Json> own, peer;
  interleave(s.peer.empty() ? 1 : 2, s.rounds, [&](size_t i) {
    i == 0 ? own.push_back(run_ours(ours)) : peer.push_back(run_trl(s.peer, theirs));
  });
  std::vector<double> seconds, other;
  for (const auto& [runs, to] : {std::pair(&own, &seconds), std::pair(&peer, &other)})
    for (const Json& run : *runs) {
      const std::vector<double> all = run.at("seconds");
      to->insert(to->end(), all.begin() + 1, all.end());
    }
  Json line = {{"part", part}, {"step_seconds", median(seconds)}};
  add_shares(s, own, line);
  for (const char* name : {"generate", "reward", "old", "reference", "update", "gemm", "attention",
                           "elementwise", "head", "optimizer", "other"})
    line[std::string(name) + "_seconds"] = part_of(own, name);
  line["peak_resident_bytes"] = median_of(own, "peak_resident_bytes");
  if (!peer.empty()) {
    line["trl_step_seconds"] = median(other);
    line["times_faster"] = median(other) / median(seconds);
    line["trl_peak_resident_bytes"] = median_of(peer, "peak_resident_bytes");
  }
  print(line);
  return equal;
}

int run(int argc, char** argv) {
  Settings s;
  CLI::App app("GRPO: seconds of a step and its parts; beside TRL");
  app.add_option("--model", s.model, "model directory, or random:qwen2.5-0.5b (its shape)");
  app.add_option("--tokenizer", s.tokenizer, "for a random model: a directory with its tokenizer's files");
  app.add_option("--part", s.parts, "only these")->check(CLI::IsMember({"fit", "window", "update", "step"}));
  app.add_option("--precision", s.precision)->check(CLI::IsMember({"bf16", "autocast", "fp32"}));
  app.add_option("--steps", s.steps, "measured steps of a run, after the first")->check(CLI::Range(1, 1000));
  app.add_option("--peer-steps", s.peer_steps, "the same of the peer")->check(CLI::Range(1, 1000));
  app.add_option("--prompt", s.prompt, "tokens, about")->check(CLI::Range(8, 1 << 20));
  app.add_option("--completion", s.completion, "tokens")->check(CLI::Range(4, 1 << 20));
  app.add_option("--group", s.group, "completions of a prompt, a multiple of 4")->check(CLI::Range(4, 1024));
  app.add_option("--lora", s.lora, "trains an adapter of this rank on all linear layers; 0: all weights");
  app.add_option("--peer", s.peer, "a Python that has trl");
  s.add_to(app);
  CLI11_PARSE(app, argc, argv);
  if (!s.child.empty()) return sft_child(s.child);
  const Scratch scratch(s.scratch);
  if (s.model == kQwen) {
    s.model = scratch.file("model");
    write_random_model(kQwen2_5_0_5B, s.tokenizer, s.model);
  }
  const auto has = [&](const char* part) { return s.parts.empty() || s.parts.contains(part); };
  if (has("fit")) fit_updates(s, scratch);
  if (has("window")) compare_windows(s, scratch);
  bool equal = true;
  if (has("update")) equal = compare_steps(s, scratch, false);
  if (has("step")) equal = compare_steps(s, scratch, true) && equal;
  return equal ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return run_bench("online_bench", [&] { return run(argc, argv); });
}
