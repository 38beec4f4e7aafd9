// usage: llama_bench --model F32.gguf --dataset TEXT --llama DIR [--rows N]
// Full fine-tuning beside llama.cpp's llama_opt (DIR/include, DIR/lib): AdamW with its learning rate, a row
// of 512 tokens a step, the same token ids, each in a process of its own, A B B A. llama_opt is float32; ours
// float32 and bfloat16. JSON lines: losses of both, tokens a second, peak resident memory, ratios. Exit
// status 1 where the first losses are not equal.
#include <filesystem>
#include <fstream>

#include "support/scratch.h"
#include "train/sft_run.h"
#include "train/token_ids.h"

namespace {

namespace fs = std::filesystem;
using namespace trl::bench;

struct Settings : PeerSettings {
  std::string model, dataset, llama, compiler = "cc";
  int64_t context = 512;
  int rows = 8;
};

// Rows of one token more: what comes after the last one is its target, as in llama_opt.
void write_rows(const std::vector<int32_t>& ids, const Settings& s, const std::string& path) {
  std::ofstream out(path);
  for (int64_t row = 0; row < s.rows; ++row) {
    const auto begin = ids.begin() + row * s.context;
    out << Json({{"input_ids", std::vector<int32_t>(begin, begin + s.context + 1)}}).dump() << "\n";
  }
}

SftWork work_of(const Settings& s, const std::string& rows, const char* dtype) {
  SftWork work{s.model, rows, "", {{"dtype", dtype}, {"bf16", false}}, s.rows};
  work.options["max_length"] = s.context + 1;
  work.options["gradient_checkpointing"] = false;
  work.options["per_device_train_batch_size"] = 1;
  work.options["train_sampling_strategy"] = "sequential";
  work.options["learning_rate"] = 1e-3;  // ggml_opt_get_default_optimizer_params
  work.options["lr_scheduler_type"] = "constant";
  work.options["max_grad_norm"] = 0;
  work.options["runtime.threads"] = s.threads;
  return work;
}

std::string compiled(const Settings& s, const Scratch& scratch) {
  const std::string program = scratch.file("llama_opt"), libraries = s.llama + "/lib";
  std::vector<std::string> words = {"/usr/bin/env",
                                    s.compiler,
                                    "-O2",
                                    "-o",
                                    program,
                                    TRL_LLAMA_OPT,
                                    "-I" + s.llama + "/include",
                                    "-L" + libraries,
                                    "-Wl,--disable-new-dtags,-rpath," + fs::absolute(libraries).string(),
                                    "-lllama",
                                    "-lggml-base"};
  run_child(words);
  if (!fs::exists(program)) throw std::runtime_error("llama_opt.c does not compile against " + s.llama);
  return program;
}

// Tokens that were trained: rows less their last one, which is a target alone.
double speed(const Settings& s, const std::vector<Json>& runs) {
  std::vector<double> all;
  for (const Json& run : runs)
    for (size_t i = 1; i < run.at("seconds").size(); ++i)
      all.push_back(static_cast<double>(s.context) / run["seconds"][i].get<double>());
  return median(all);
}

// Whether the first losses are equal.
bool measure(const Settings& s, const Scratch& scratch) {
  const std::string program = compiled(s, scratch), rows = scratch.file("rows.jsonl");
  const std::vector<int32_t> ids = token_ids(s.model, s.dataset, s.context * s.rows + 1);
  write_rows(ids, s, rows);
  std::ofstream(scratch.file("ids"), std::ios::binary)
      .write(reinterpret_cast<const char*>(ids.data()), static_cast<std::streamsize>(4 * ids.size()));
  struct Side {
    const char *precision, *dtype;
    std::vector<Json> runs;
  } sides[] = {{"fp32", "float32", {}}, {"bf16", "bfloat16", {}}, {"fp32", nullptr, {}}};
  interleave(std::size(sides), s.rounds, [&](size_t i) {
    sides[i].runs.push_back(sides[i].dtype != nullptr
                                ? run_ours(work_of(s, rows, sides[i].dtype))
                                : run_json({program, s.model, scratch.file("ids"), std::to_string(s.context),
                                            std::to_string(s.rows), std::to_string(s.threads)}));
  });
  const Json &ours = sides[0].runs[0].at("losses"), &theirs = sides[2].runs[0].at("losses");
  const double first = std::abs(ours[0].get<double>() / theirs[0].get<double>() - 1);
  print({{"bench", "llama"},
         {"what", "equality"},
         {"losses", {ours, theirs}},
         {"relative_difference_of_the_first", first},
         {"bound", 1e-4},
         {"equal", first <= 1e-4}});
  const double peer = speed(s, sides[2].runs), peer_memory = median_of(sides[2].runs, "peak_resident_bytes");
  for (const Side& side : sides) {
    Json line = {{"bench", "llama"}, {"by", side.runs[0].at("by")}, {"precision", side.precision}};
    line["tokens_per_second"] = speed(s, side.runs);
    line["peak_resident_bytes"] = median_of(side.runs, "peak_resident_bytes");
    if (side.dtype != nullptr) {
      line["speed_ratio"] = speed(s, side.runs) / peer;
      line["memory_ratio"] = line["peak_resident_bytes"].get<double>() / peer_memory;
    }
    print(line);
  }
  return first <= 1e-4;
}

int run(int argc, char** argv) {
  Settings s;
  CLI::App app("Full fine-tuning beside llama.cpp's llama_opt");
  app.add_option("--model", s.model, "a GGUF file of float32 weights, which both sides read");
  app.add_option("--dataset", s.dataset, "a file of text");
  app.add_option("--llama", s.llama, "where a llama.cpp is installed: a folder with include and lib");
  app.add_option("--compiler", s.compiler, "for llama_opt.c");
  app.add_option("--tokens", s.context, "of a row")->check(CLI::Range(2, 1 << 16));
  app.add_option("--rows", s.rows, "one a step; the first is not counted")->check(CLI::Range(2, 4096));
  s.add_to(app);
  CLI11_PARSE(app, argc, argv);
  if (!s.child.empty()) return sft_child(s.child);
  if (!fs::is_regular_file(s.model)) throw std::runtime_error("--model: a GGUF file is expected");
  if (!fs::is_regular_file(s.llama + "/include/llama.h"))
    throw std::runtime_error("--llama: no include/llama.h in '" + s.llama + "'");
  const Scratch scratch(s.scratch);
  return measure(s, scratch) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return run_bench("llama_bench", [&] { return run(argc, argv); });
}
