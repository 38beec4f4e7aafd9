// usage: sft_bench --model DIR|FILE.gguf --dataset FILE [--columns MAP] [--steps N] [--batch N] [--max_length
// N] SFT through the C ABI, each precision in a process of its own. A JSON line each: useful (not padding)
// tokens a second, median over the steps after the first; peak resident memory; seconds from process start to
// the end of step one.
#include <trl.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "support/child.h"

namespace {

using trl::bench::now;

struct Settings {
  std::string model, dataset, columns, batch = "8", max_length = "512", precision;
  int steps = 6;
  double start = 0;
};

int fail(trl_error* error) {
  std::fprintf(stderr, "sft_bench: %s\n", trl_error_message(error));
  return 1;
}

// bf16: bfloat16 weights; fp32: float32 throughout; autocast: TRL's default, bfloat16 products over float32
// weights.
std::vector<std::pair<std::string, std::string>> keys(const Settings& s) {
  std::vector<std::pair<std::string, std::string>> pairs = {
      {"model_name_or_path", s.model},
      {"output_dir", "/nonexistent"},
      {"save_strategy", "no"},
      {"max_steps", std::to_string(s.steps + 1)},
      {"per_device_train_batch_size", s.batch},
      {"max_length", s.max_length},
      {"gradient_checkpointing", "false"},
      {"dtype", s.precision == "bf16" ? "bfloat16" : "float32"},
      {"bf16", s.precision == "fp32" ? "false" : "true"},
  };
  if (!s.columns.empty()) pairs.emplace_back("dataset_columns", s.columns);
  return pairs;
}

int measure(const Settings& s) {
  trl_error* error = nullptr;
  trl_config* config = nullptr;
  trl_dataset* rows = nullptr;
  trl_trainer* trainer = nullptr;
  if (trl_config_create(&config, &error) < 0) return fail(error);
  for (const auto& [key, value] : keys(s))
    if (trl_config_set(config, key.c_str(), value.c_str(), &error) < 0) return fail(error);
  if (trl_dataset_open(nullptr, s.dataset.c_str(), config, &rows, &error) < 0) return fail(error);
  if (trl_trainer_create(nullptr, config, rows, nullptr, &trainer, &error) < 0) return fail(error);
  double first = 0, tokens_before = 0, loss = 0;
  std::vector<double> rates;
  for (int step = 0; step <= s.steps; ++step) {
    const trl_metrics* metrics = nullptr;
    const double begin = now();
    if (trl_trainer_step(trainer, &metrics, &error) != TRL_OK) return fail(error);
    const double end = now();
    double tokens = 0;
    trl_metrics_get(metrics, "num_tokens", &tokens);
    trl_metrics_get(metrics, "loss", &loss);
    if (step == 0) {
      first = end - s.start;
    } else {
      rates.push_back((tokens - tokens_before) / (end - begin));
    }
    tokens_before = tokens;
  }
  std::printf(
      "{\"bench\": \"sft\", \"precision\": \"%s\", \"tokens_per_second\": %.1f, \"peak_resident_bytes\": "
      "%ld, "
      "\"first_step_seconds\": %.3f, \"steps\": %d, \"tokens\": %.0f, \"loss\": %.4f}\n",
      s.precision.c_str(), trl::bench::median(rates), trl::bench::peak_resident(), first, s.steps,
      tokens_before, loss);
  trl_trainer_destroy(trainer);
  trl_dataset_destroy(rows);
  trl_config_destroy(config);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  std::vector<std::string> precisions = {"bf16", "autocast", "fp32"};
  CLI::App app("SFT through the C ABI: tokens a second, memory, time to the first step");
  app.add_option("--model", s.model, "model directory or GGUF file")->required();
  app.add_option("--dataset", s.dataset, "rows")->required();
  app.add_option("--columns", s.columns, "dataset_columns");
  app.add_option("--steps", s.steps, "measured steps");
  app.add_option("--batch", s.batch, "rows a step");
  app.add_option("--max_length", s.max_length, "tokens a row at most");
  app.add_option("--precision", precisions, "bf16, autocast, fp32");
  app.add_option("--child-start", s.start, "")->group("");
  CLI11_PARSE(app, argc, argv);
  if (s.start > 0) {
    s.precision = precisions.at(0);
    return measure(s);
  }
  int bad = 0;
  for (const std::string& precision : precisions) {
    const std::string out = trl::bench::run_child(
        {"/proc/self/exe", "--model", s.model, "--dataset", s.dataset, "--columns", s.columns, "--steps",
         std::to_string(s.steps), "--batch", s.batch, "--max_length", s.max_length, "--precision", precision,
         "--child-start", std::to_string(now())});
    std::fputs(out.c_str(), stdout);
    bad += out.empty();
  }
  return bad > 0 ? 1 : 0;
}
