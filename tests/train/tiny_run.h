// Small runs of the recorded qwen2 model on the language-modeling rows.
#pragma once
#include <utility>
#include <vector>

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

}  // namespace trl::test

#define TRL_NEED_TINY_RUN()        \
  TRL_NEED_GOLDEN("models/qwen2"); \
  TRL_NEED_GOLDEN("data/datasets/train_lm.jsonl")
