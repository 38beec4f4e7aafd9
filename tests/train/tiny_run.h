// Small runs of the recorded qwen2 model on the language-modeling rows.
#pragma once
#include <map>
#include <utility>
#include <vector>

#include "config/lora_config.h"
#include "support/interrupts.h"
#include "support/scratch.h"
#include "train/sft_run.h"

namespace trl::test {

using Settings = std::vector<std::pair<const char*, const char*>>;

inline config::Config tiny_config(const Settings& settings) {
  config::Config config;
  const Settings usual = {{"bf16", "false"},         {"gradient_checkpointing", "false"},
                          {"dtype", "float32"},      {"train_sampling_strategy", "sequential"},
                          {"logging_steps", "1"},    {"save_strategy", "no"},
                          {"learning_rate", "1e-3"}, {"per_device_train_batch_size", "4"}};
  for (const auto& [key, value] : usual) config.set(key, value);
  for (const auto& [key, value] : settings) config.set(key, value);
  if (!config.is_set("output_dir")) {
    static const Scratch scratch;  // of this process: a run locks its output directory
    config.set("output_dir", scratch / "output");
  }
  return config;
}

// -1: it has none.
inline double value(const telemetry::Record& record, std::string_view name) {
  for (const telemetry::Entry& entry : record.entries()) {
    if (entry.name == name) return entry.value;
  }
  return -1;
}

inline SftRun tiny_run(const Settings& settings, Rows rows = {0, 63}, std::optional<Rows> eval_rows = {}) {
  const std::string model = golden_path("models/qwen2");
  return SftRun(tiny_config(settings), model, golden_path("data/datasets/train_lm.jsonl"), rows, eval_rows);
}

inline Settings joined(Settings all, const Settings& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// Trains an adapter alone, which begins from PEFT's values for seed 7.
inline train::Trainer& start_adapter(SftRun& run, const char* text) {
  const config::LoraConfig config =
      config::read_lora_config(base::parse_json(text, "test"), "test", Status::format);
  model::Adapter& adapter = run.model().adapters().add("default", config, at::kFloat);
  adapter.start(7);
  run.model().train_only(adapter);
  return run.start();
}

inline bool is_timing(const std::string& name) {
  return name.ends_with("_runtime") || name.ends_with("_per_second");
}

// Records as text, with names sorted and without timings.
inline std::vector<std::string> history(const telemetry::TrainerState& state) {
  std::vector<std::string> lines;
  for (const telemetry::Record& record : state.log_history) {
    std::map<std::string, std::string> entries;
    for (const telemetry::Entry& entry : record.entries()) {
      if (!is_timing(entry.name)) entries[entry.name] = telemetry::to_text(entry);
    }
    std::string line;
    for (const auto& [name, value] : entries) line += name + "=" + value + " ";
    lines.push_back(line);
  }
  return lines;
}

inline void expect_same(const std::vector<at::Tensor>& got, const std::vector<at::Tensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(at::equal(got[i], want[i])) << "tensor " << i;
}

}  // namespace trl::test

#define TRL_NEED_TINY_RUN()        \
  TRL_NEED_GOLDEN("models/qwen2"); \
  TRL_NEED_GOLDEN("data/datasets/train_lm.jsonl")
