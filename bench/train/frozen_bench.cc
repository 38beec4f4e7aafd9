// usage: frozen_bench --model DIR --dataset FILE [--columns MAP] [--rows N] [--batch N] [--dtype T] [--zstd]
// Adapters on the top third of the layers, two epochs, without and with cache_frozen_layers. A JSON line:
// tokens/s of each epoch of both, what the second epoch gains, bytes of the cache, and whether all losses are
// equal. The epochs of both runs take turns.
#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "support/abi.h"
#include "support/child.h"
#include "support/command.h"
#include "support/scratch.h"

namespace {

namespace fs = std::filesystem;

struct Settings {
  std::string model, dataset, columns = "{}", dtype = "auto", scratch;
  int rows = 512, batch = 16, threads = 2;
  bool zstd = false;
};

// The adapter of the top third.
std::string upper_layers(const std::string& model) {
  std::ifstream file(model + "/config.json");
  const int layers = nlohmann::json::parse(file).at("num_hidden_layers");
  std::vector<int> upper;
  for (int i = layers - layers / 3; i < layers; ++i) upper.push_back(i);
  return nlohmann::json{{"layers_to_transform", upper}}.dump();
}

// The first lines of the rows.
std::string first_rows(const Settings& s, const std::string& path) {
  std::ifstream from(s.dataset);
  std::ofstream to(path);
  std::string line;
  for (int i = 0; i < s.rows && std::getline(from, line); ++i) to << line << '\n';
  return path;
}

struct Run {
  trl_trainer* trainer = nullptr;
  std::vector<double> losses = {};
  std::array<double, 2> speed = {};  // tokens/s of each epoch

  Run(const Settings& s, const std::string& dataset, const std::string& output, const std::string& cache) {
    trl_dataset* rows = nullptr;
    nlohmann::ordered_json keys = {
        {"model_name_or_path", s.model},
        {"output_dir", output},
        {"dtype", s.dtype},
        {"dataset_columns", s.columns},
        {"num_train_epochs", "2"},
        {"per_device_train_batch_size", std::to_string(s.batch)},
        {"gradient_checkpointing", "false"},
        {"save_strategy", "no"},
        {"use_peft", "true"},
        {"lora_target_modules", "[q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj]"},
        {"peft_config", upper_layers(s.model)},
        {"cache_frozen_layers_zstd", s.zstd ? "true" : "false"},
        {"runtime.threads", std::to_string(s.threads)}};
    if (!cache.empty()) keys["cache_frozen_layers"] = cache;
    trl_config* const config = trl::bench::config_of(keys);
    TRL_CHECK(trl_dataset_open(nullptr, dataset.c_str(), config, &rows, &error));
    TRL_CHECK(trl_trainer_create(nullptr, config, rows, nullptr, &trainer, &error));
    trl_dataset_destroy(rows);
    trl_config_destroy(config);
  }
  ~Run() { trl_trainer_destroy(trainer); }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void epoch(size_t number, int steps) {
    const double begin = trl::bench::now(), before = tokens_;
    for (int i = 0; i < steps; ++i) {
      const trl_metrics* metrics = nullptr;
      TRL_CHECK(trl_trainer_step(trainer, &metrics, &error));
      double loss = 0;
      trl_metrics_get(metrics, "loss", &loss);
      trl_metrics_get(metrics, "num_tokens", &tokens_);
      losses.push_back(loss);
    }
    speed.at(number) = (tokens_ - before) / (trl::bench::now() - begin);
  }

 private:
  double tokens_ = 0;
};

int measure(const Settings& s) {
  const trl::bench::Scratch scratch(s.scratch);
  const std::string cache = scratch.file("cache");
  const std::string rows = first_rows(s, scratch.file("rows.jsonl"));
  Run without(s, rows, scratch.file("a"), ""), with(s, rows, scratch.file("b"), cache);
  const int steps = (s.rows + s.batch - 1) / s.batch;
  for (size_t epoch = 0; epoch < 2; ++epoch) {
    without.epoch(epoch, steps);
    with.epoch(epoch, steps);
  }
  uintmax_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(cache))
    bytes += entry.is_regular_file() ? entry.file_size() : 0;
  std::printf("%s\n", nlohmann::json{{"bench", "frozen"},
                                     {"first_epoch_without", without.speed[0]},
                                     {"first_epoch_with", with.speed[0]},
                                     {"second_epoch_without", without.speed[1]},
                                     {"second_epoch_with", with.speed[1]},
                                     {"second_epoch_ratio", with.speed[1] / without.speed[1]},
                                     {"cache_bytes", bytes},
                                     {"losses_equal", with.losses == without.losses}}
                          .dump()
                          .c_str());
  return with.losses == without.losses ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  CLI::App app("Adapters on the top third of the layers, with and without cache_frozen_layers");
  app.add_option("--model", s.model, "model directory")->required();
  app.add_option("--dataset", s.dataset, "rows")->required();
  app.add_option("--columns", s.columns, "dataset_columns");
  app.add_option("--dtype", s.dtype, "of the weights");
  app.add_option("--rows", s.rows, "of an epoch")->check(CLI::Range(1, 1 << 20));
  app.add_option("--batch", s.batch, "rows of a step")->check(CLI::Range(1, 1 << 16));
  app.add_option("--threads", s.threads, "to compute with")->check(CLI::Range(1, 4096));
  app.add_option("--scratch", s.scratch, "a folder for files, which are removed at the end");
  app.add_flag("--zstd", s.zstd, "cache_frozen_layers_zstd");
  CLI11_PARSE(app, argc, argv);
  return trl::bench::run_bench("frozen_bench", [&] { return measure(s); });
}
