// usage: sft_bench --model DIR|FILE.gguf|random:qwen2.5-0.5b|random:FAMILY --dataset FILE [--columns MAP]
// [--precision ...] SFT through the C ABI and, with --peer, by TRL in PYTHON: whole steps, each run in a
// process of its own, in the order A B B A. JSON lines: equality of the losses on identical batches; useful
// (not padding) tokens a second, the mean over the steps after the first with the smallest and the largest of
// them, peak resident memory and what of it is beyond weights, gradients and optimizer state, seconds from
// process start to the end of step one; the share of the roofline; where the time goes; the ratios. Exit
// status 1 where the losses are not equal. --lora: an adapter is trained instead of the model, on both sides.
#include <filesystem>

#include "support/random_model.h"
#include "support/scratch.h"
#include "train/sft_report.h"
#include "train/sft_rows.h"

namespace {

namespace fs = std::filesystem;
using namespace trl::bench;

constexpr int kWarmSteps = 4;  // of each side that is compared, at least
constexpr std::string_view kRandom = "random:", kQwen = "qwen2.5-0.5b";

struct Settings : PeerSettings {
  std::string model, tokenizer, dataset, columns, peer;
  std::vector<std::string> precisions = {"bf16", "autocast", "fp32"}, peers;
  int steps = 6, peer_steps = 2, equality_steps = 2;
  int64_t batch = 8, max_length = 0, tokens_per_step = 4096;
  int lora = 0;  // its rank; 0: all of the model is trained
  std::vector<double> lora_dropout = {0};
  bool packing = false, no_padding = false, full = false, qlora = false, int8 = false;
};

bool is_random(const Settings& s) { return s.model.starts_with(kRandom); }

// autocast: TRL's defaults (float32 weights, bfloat16 autocast, checkpointing); the others without either.
Json precision_options(const std::string& precision) {
  return {{"dtype", precision == "bf16" ? "bfloat16" : "float32"},
          {"bf16", precision == "autocast"},
          {"gradient_checkpointing", precision == "autocast"}};
}

SftWork work_of(const Settings& s, const std::string& precision, int steps) {
  SftWork work{s.model, s.dataset, s.columns, precision_options(precision), steps};
  work.options["max_length"] = s.max_length;
  work.options["completion_only_loss"] = s.no_padding ? Json() : Json(false);
  work.options["per_device_train_batch_size"] = s.no_padding ? 1 : s.batch;
  work.options["runtime.threads"] = s.threads;
  return work;
}

SftWork our_work(const Settings& s, const std::string& precision, int steps) {
  SftWork work = work_of(s, precision, steps);
  if (s.packing) {
    work.options["packing"] = true;
    work.options["per_device_train_batch_size"] = 1;
    work.options["gradient_accumulation_steps"] = s.tokens_per_step / s.max_length;
  }
  return work;
}

// Settings of TRL.
struct Peer {
  const char *name, *precision;
};
constexpr Peer kPeers[] = {{"default", "autocast"}, {"best", "bf16"}, {"fp32", "fp32"}};

const Peer& peer_named(const std::string& name) {
  for (const Peer& peer : kPeers)
    if (name == peer.name) return peer;
  throw std::runtime_error("--peer-settings: " + name + " is not one of default, best, fp32");
}

// Ours and TRL's losses step by step, of the same batches in the same precision: as in our runs
// (packed where they are). Two steps: the second shows the gradients of the first.
// Whether they are equal.
bool show_equality(const Settings& s, const std::string& precision) {
  SftWork work = our_work(s, precision, s.equality_steps);
  if (s.lora > 0) add_lora(s.lora, 0, work);
  const Json ours = run_ours(work), theirs = run_trl(s.peer, work);
  const Json line = equality_line(precision, ours, theirs);
  print(line);
  return line.at("equal");
}

struct Side {
  std::string name, precision;
  bool ours;
  SftWork work;
  std::vector<Json> runs;
  std::string peer{};  // the name of TRL's setting
};

std::vector<Side> our_sides(const Settings& s, const std::string& precision) {
  std::vector<Side> sides;
  const SftWork full = our_work(s, precision, s.steps + 1);
  if (s.lora == 0 || s.full) sides.push_back({precision, precision, true, full, {}});
  if (s.lora == 0) return sides;
  for (const double dropout : s.lora_dropout) {
    std::string name = precision + " lora";
    if (dropout > 0) name += " dropout " + Json(dropout).dump();
    sides.push_back({name, precision, true, full, {}});
    add_lora(s.lora, dropout, sides.back().work);
    if (!s.int8 || precision == "fp32") continue;
    sides.push_back({name + " int8", precision, true, sides.back().work, {}});
    sides.back().work.options["frozen_compute"] = "int8";
  }
  if (!s.qlora) return sides;
  sides.push_back({precision + " qlora", precision, true, full, {}});
  add_lora(s.lora, 0, sides.back().work);
  sides.back().work.options.update({{"load_in_4bit", true}, {"bnb_4bit_quant_type", "nf4"}});
  return sides;
}

// TRL trains on padded rows, and with --packing on our packs, too.
std::vector<Side> peer_sides(const Settings& s, const Peer& peer) {
  const std::string name = peer.name, precision = peer.precision;
  const int steps = s.peer_steps + 1;
  std::vector<Side> sides = {
      {s.packing ? name + " padded" : name, precision, false, work_of(s, precision, steps), {}, name}};
  if (s.packing)
    sides.push_back({name + " packed", precision, false, our_work(s, precision, steps), {}, name});
  for (Side& side : sides) {
    if (s.lora > 0) add_lora(s.lora, 0, side.work);
  }
  return sides;
}

std::vector<Side> sides_of(const Settings& s) {
  std::vector<Side> sides;
  for (const std::string& precision : s.precisions)
    for (Side& side : our_sides(s, precision)) sides.push_back(std::move(side));
  if (s.peer.empty()) return sides;
  for (const std::string& name : s.peers) {
    for (Side& side : peer_sides(s, peer_named(name))) sides.push_back(std::move(side));
  }
  return sides;
}

// Of the adapter that a side trains, as ours count them; 0: all of the model is trained.
double adapter_parameters(const Side& side, const std::vector<Side>& all) {
  if (!side.work.options.contains("use_peft")) return 0;
  for (const Side& one : all) {
    const Json& run = one.runs.front();
    if (run.contains("adapter_parameters")) return run["adapter_parameters"];
  }
  return 0;
}

// How much slower the adapter is on 4-bit weights: medians of steps that took turns.
void add_ratio_to_lora(const Side& side, const std::vector<Json>& lines, Json& line) {
  for (const Json& other : lines) {
    if (side.name == side.precision + " qlora" && other.at("setting") == side.precision + " lora")
      line["of_lora"] =
          std::round(1000 * line.at("median").get<double>() / other.at("median").get<double>()) / 1000;
  }
}

// Prints the faster of a setting's padded and packed runs, with which ours are compared.
void print_better(const Settings& s, const std::vector<Side>& sides, const std::vector<Json>& lines) {
  for (const std::string& name : s.peers) {
    const Json* best = nullptr;
    for (size_t i = 0; i < lines.size(); ++i) {
      if (sides[i].peer != name) continue;
      if (best == nullptr || lines[i].at("tokens_per_second") > best->at("tokens_per_second"))
        best = &lines[i];
    }
    if (best == nullptr || !s.packing) continue;
    Json line = *best;
    line["what"] = "better of padded and packed";
    print(line);
  }
}

// Whether all losses were equal.
bool measure(const Settings& s) {
  const Architecture model = architecture_of(describe_model(s.model));
  const Json gemm = run_json({TRL_GEMM_BENCH, "--threads", std::to_string(s.threads)});
  bool equal = true;
  if (!s.peer.empty())
    for (const std::string& precision : s.precisions) equal = show_equality(s, precision) && equal;
  std::vector<Side> sides = sides_of(s);
  interleave(sides.size(), s.rounds, [&](size_t i) {
    Side& side = sides[i];
    side.runs.push_back(side.ours ? run_ours(side.work) : run_trl(s.peer, side.work));
  });
  std::vector<Json> lines;
  for (const Side& side : sides) {
    const double adapter = adapter_parameters(side, sides);
    const double states =
        states_bytes(side.precision, model, adapter, side.work.options.contains("load_in_4bit"));
    Json line = speed_line(side.name, side.precision, states, side.runs);
    add_ratio_to_lora(side, lines, line);
    if (!side.ours)
      for (const Json& other : lines) add_ratios(line, other);
    print(line);
    lines.push_back(line);
    if (!side.ours) continue;
    print(roofline_line(side.name, side.precision, model, adapter, gemm, side.runs));
    print(parts_line(side.name, side.runs));
  }
  print_better(s, sides, lines);
  return equal;
}

void need(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}

void check(Settings& s) {
  need(!(s.packing && s.no_padding), "--packing and --no-padding exclude each other");
  need(s.steps > 0 && s.peer_steps > 0 && s.equality_steps > 0,
       "--steps, --peer-steps and --equality-steps must be at least 1");
  need(s.peer.empty() || 2 * s.rounds * std::min(s.steps, s.peer_steps) >= kWarmSteps,
       "--steps, --peer-steps, --rounds: less than four warm steps of a side, whose speeds vary twofold");
  need(!s.qlora || s.lora > 0, "--qlora: give --lora too");
  if (s.max_length == 0) s.max_length = s.packing ? 1024 : 512;
  need(s.batch > 0 && s.max_length > 0, "--batch and --max_length must be at least 1");
  need(!s.packing || s.tokens_per_step % s.max_length == 0,
       "--tokens-per-step: not a multiple of --max_length");
  need(s.peer.empty() || fs::is_directory(s.model) || is_random(s),
       "--peer: the model must be a directory, which both sides read");
  need(!is_random(s) || !s.tokenizer.empty(), "--model random:...: give --tokenizer too");
  need(fs::exists(s.model) || is_random(s), "--model: not there");
  for (const std::string& precision : s.precisions) {
    need(precision == "bf16" || precision == "autocast" || precision == "fp32",
         "--precision: accepted are bf16, autocast, fp32");
  }
  if (s.peers.empty()) {  // what TRL has in those precisions; both settings for bf16
    for (const Peer& peer : kPeers) {
      for (const std::string& precision : s.precisions) {
        if (precision == peer.precision || (precision == "bf16" && std::string(peer.name) == "default")) {
          s.peers.emplace_back(peer.name);
          break;
        }
      }
    }
  }
  for (const std::string& name : s.peers) peer_named(name);
}

int run(int argc, char** argv) {
  Settings s;
  CLI::App app("SFT: tokens a second, memory, roofline; beside TRL");
  app.add_option(
      "--model", s.model,
      "model directory, GGUF file, random:qwen2.5-0.5b (its shape) or random:FAMILY (random:llama ...)");
  app.add_option("--tokenizer", s.tokenizer, "for a random model: a directory with its tokenizer's files");
  app.add_option("--dataset", s.dataset, "JSON lines");
  app.add_option("--columns", s.columns, R"(dataset_columns, as JSON: {"question": "prompt", ...})");
  app.add_option("--precision", s.precisions, "of ours: bf16, autocast, fp32");
  app.add_option("--steps", s.steps, "measured steps of a run, after the first");
  app.add_option("--batch", s.batch, "rows a step where rows are not packed");
  app.add_option("--max_length", s.max_length, "tokens a row at most; 1024 where rows are packed, else 512");
  app.add_flag("--packing", s.packing, "ours by bfd: rows of max_length, accumulated");
  app.add_option("--tokens-per-step", s.tokens_per_step, "of packed rows");
  app.add_flag("--no-padding", s.no_padding, "one row of exactly max_length tokens a step, on both sides");
  app.add_option("--lora", s.lora, "trains an adapter of this rank on all linear layers, on both sides");
  app.add_option("--lora-dropout", s.lora_dropout, "of ours, one setting each; the peer has none");
  app.add_flag("--qlora", s.qlora, "with --lora: ours on NF4 weights, too");
  app.add_flag("--full", s.full, "with --lora: ours, all of the model, too");
  app.add_flag("--int8", s.int8, "with --lora: ours with frozen_compute int8, too");
  app.add_option("--peer", s.peer, "a Python that has trl");
  app.add_option("--peer-settings", s.peers, "default, best, fp32; else those of the precisions");
  app.add_option("--peer-steps", s.peer_steps,
                 "measured steps of a run of the peer, after the first; each side has two runs a round");
  app.add_option("--equality-steps", s.equality_steps, "whose losses are compared");
  s.add_to(app);
  CLI11_PARSE(app, argc, argv);
  if (!s.child.empty()) return sft_child(s.child);
  check(s);
  const Scratch scratch(s.scratch);
  if (is_random(s)) {
    const std::string name = s.model.substr(kRandom.size());
    s.model = scratch.file("model");
    if (name == kQwen) {
      write_random_model(kQwen2_5_0_5B, s.tokenizer, s.model);
    } else {
      run_json({TRL_RANDOM_MODEL, name, s.tokenizer, s.model});
    }
  }
  if (s.no_padding) {
    write_long_rows(s.dataset, scratch.file("rows.jsonl"), s.max_length);
    s.dataset = scratch.file("rows.jsonl");
    s.columns.clear();
  }
  return measure(s) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return run_bench("sft_bench", [&] { return run(argc, argv); });
}
