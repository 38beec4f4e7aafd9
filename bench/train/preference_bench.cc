// usage: preference_bench --method dpo|kto|reward --model DIR|random:qwen2.5-0.5b --dataset FILE [--lora R]
// ... Preference and reward training through the C ABI and, with --peer, by TRL in PYTHON, on identical
// pairs: whole steps, each run in a process of its own, in the order A B B A. JSON lines: equality of the
// losses; tokens a second (sums of attention masks, so that a token which pairs share counts for each of
// them), means over the steps after the first; pairs a second, or rows of KTO; peak resident memory; the
// ratios. Exit status 1 where the losses are not equal. --share: ours with share_prefix off, too, and the
// ratio of both.
#include <filesystem>

#include "support/random_model.h"
#include "support/scratch.h"
#include "train/preference_rows.h"
#include "train/sft_report.h"

namespace {

namespace fs = std::filesystem;
using namespace trl::bench;

constexpr std::string_view kQwen = "random:qwen2.5-0.5b";

struct Settings : PeerSettings {
  std::string method = "dpo", model, tokenizer, dataset, peer;
  std::vector<std::string> precisions = {"bf16", "fp32"};
  int steps = 6, peer_steps = 2, equality_steps = 2;
  int64_t batch = 4, max_length = 1024;
  PairShape shape;
  int lora = 0;  // its rank; 0: all of the model is trained
  bool share = false;
};

SftWork work_of(const Settings& s, const std::string& precision, int steps) {
  SftWork work{s.model, s.dataset, "", {{"method", s.method}}, steps};
  work.options.update({{"dtype", precision == "bf16" ? "bfloat16" : "float32"},
                       {"bf16", precision == "autocast"},
                       {"gradient_checkpointing", precision == "autocast"},
                       {"max_length", s.max_length},
                       {"per_device_train_batch_size", s.batch},
                       {"runtime.threads", s.threads}});
  if (s.lora > 0) add_lora(s.lora, 0, work);
  return work;
}

struct Side {
  std::string name, precision;
  bool ours;
  SftWork work;
  std::vector<Json> runs;
};

std::vector<Side> sides_of(const Settings& s) {
  std::vector<Side> sides;
  for (const std::string& precision : s.precisions) {
    sides.push_back({precision, precision, true, work_of(s, precision, s.steps + 1), {}});
    if (!s.share) continue;
    sides.push_back(sides.back());
    sides.back().name += " unshared";
    sides.back().work.options["share_prefix"] = false;
  }
  if (s.peer.empty()) return sides;
  for (const std::string& precision : s.precisions)
    sides.push_back({"TRL " + precision, precision, false, work_of(s, precision, s.peer_steps + 1), {}});
  return sides;
}

bool show_equality(const Settings& s, const std::string& precision) {
  const SftWork work = work_of(s, precision, s.equality_steps);
  Json line = equality_line(precision, run_ours(work), run_trl(s.peer, work));
  line["bench"] = s.method;
  print(line);
  return line.at("equal");
}

// Whether all losses were equal.
bool measure(const Settings& s) {
  bool equal = true;
  if (!s.peer.empty())
    for (const std::string& precision : s.precisions) equal = show_equality(s, precision) && equal;
  std::vector<Side> sides = sides_of(s);
  interleave(sides.size(), s.rounds, [&](size_t i) {
    Side& side = sides[i];
    side.runs.push_back(side.ours ? run_ours(side.work) : run_trl(s.peer, side.work));
  });
  const Architecture model = architecture_of(describe_model(s.model));
  std::vector<Json> lines;
  for (const Side& side : sides) {
    Json line =
        speed_line(side.name, side.precision, states_bytes(side.precision, model, 0, false), side.runs);
    line["bench"] = s.method;
    line[s.method == "kto" ? "rows_per_second" : "pairs_per_second"] =
        line.at("tokens_per_second").get<double>() / line.at("tokens_per_step").get<double>() *
        static_cast<double>(s.batch);
    if (!side.ours)
      for (const Json& other : lines) add_ratios(line, other);
    print(line);
    lines.push_back(line);
  }
  return equal;
}

void need(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}

int run(int argc, char** argv) {
  Settings s;
  CLI::App app("Preference and reward training: tokens a second and memory; beside TRL");
  app.add_option("--method", s.method, "dpo, kto or reward")->check(CLI::IsMember({"dpo", "kto", "reward"}));
  app.add_option("--model", s.model, "model directory, or random:qwen2.5-0.5b (its shape)");
  app.add_option("--tokenizer", s.tokenizer, "for a random model: a directory with its tokenizer's files");
  app.add_option("--dataset", s.dataset,
                 "JSON lines: solutions marked right and wrong; with --prompt, any text");
  app.add_option("--precision", s.precisions, "bf16, autocast, fp32; the peer has the same");
  app.add_option("--steps", s.steps, "measured steps of a run, after the first");
  app.add_option("--peer-steps", s.peer_steps, "measured steps of a run of the peer, after the first");
  app.add_option("--equality-steps", s.equality_steps, "whose losses are compared");
  app.add_option("--batch", s.batch, "rows a step");
  app.add_option("--max_length", s.max_length, "tokens of prompt and completion at most");
  app.add_option("--prompt", s.shape.prompt, "tokens of a prompt, about; without: the pairs as they are");
  app.add_option("--completion", s.shape.completion, "and of a completion");
  app.add_option("--lora", s.lora, "trains an adapter of this rank on all linear layers, on both sides");
  app.add_flag("--share", s.share, "ours with share_prefix: false, too");
  app.add_option("--peer", s.peer, "a Python that has trl");
  s.add_to(app);
  CLI11_PARSE(app, argc, argv);
  if (!s.child.empty()) return sft_child(s.child);
  need(fs::exists(s.dataset), "--dataset: not there");
  need(s.steps > 0 && s.peer_steps > 0 && s.equality_steps > 0,
       "--steps, --peer-steps and --equality-steps must be at least 1");
  need((s.shape.prompt > 0) == (s.shape.completion > 0), "--prompt and --completion: give both or none");
  need(s.model == kQwen || fs::is_directory(s.model), "--model: not a directory");
  need(s.model != kQwen || !s.tokenizer.empty(), "--model random:...: give --tokenizer too");
  const Scratch scratch(s.scratch);
  if (s.model == kQwen) {
    s.model = scratch.file("model");
    write_random_model(kQwen2_5_0_5B, s.tokenizer, s.model);
  }
  write_pairs(s.dataset, scratch.file("pairs.jsonl"), s.method, s.shape);
  s.dataset = scratch.file("pairs.jsonl");
  return measure(s) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return run_bench("preference_bench", [&] { return run(argc, argv); });
}
