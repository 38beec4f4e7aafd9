// A recorded run of TRL: its configuration, and its records against those of a run here.
#pragma once
#include <cmath>
#include <filesystem>
#include <optional>

#include "train/sft_run.h"

namespace trl::test {

inline config::Config config_of(const base::Json& golden) {
  config::Config config;
  const auto set = [&](const std::string& key, const base::Json& value) {
    config.set(key, value.is_string() ? value.get<std::string>() : value.dump());
  };
  if (golden.value("trainer", "") == "DPOTrainer") config.set("method", "dpo");
  if (golden.value("trainer", "") == "KTOTrainer") config.set("method", "kto");
  if (golden.value("trainer", "") == "RewardTrainer") config.set("method", "reward");
  if (const base::Json reference = golden.value("ref_model", base::Json()); reference.is_string())
    config.set("ref_model_name_or_path", golden_path(reference));
  for (const char* off : {"bf16", "gradient_checkpointing"}) config.set(off, "false");
  config.set("logging_steps", "1");
  config.set("save_strategy", "no");
  config.set("dtype", "float32");
  config.set("optim", golden["optim"].get<std::string>());
  config.set("lr_scheduler_type", golden["lr_scheduler_type"].get<std::string>());
  config.set("output_dir", std::filesystem::temp_directory_path().string() + "/trl_trajectory_" +
                               golden["name"].get<std::string>());
  for (const auto& [key, value] : golden["args"].items()) {
    if (key == "model_init_kwargs") {
      set("dtype", value["dtype"]);
    } else {
      set(key, value);
    }
  }
  const base::Json quantization = golden.value("quantization", base::Json());
  if (quantization.is_object()) {
    config.set("use_peft", "true");
    set("load_in_4bit", quantization["load_in_4bit"]);
    set("bnb_4bit_quant_type", quantization["bnb_4bit_quant_type"]);
    set("use_bnb_nested_quant", quantization.value("bnb_4bit_use_double_quant", false));
  }
  return config;
}

inline bool is_wall_time(const std::string& name) {
  return name.ends_with("_runtime") || name.ends_with("_per_second") || name == "step_time" ||
         name == "total_flos";
}

// The mean of all losses; nullopt: there is a step without a record.
inline std::optional<double> mean_of_losses(const base::Json& log_history) {
  double sum = 0;
  int64_t steps = 0;
  for (const base::Json& record : log_history)
    if (record.contains("loss")) sum += record["loss"].get<double>(), ++steps;
  if (steps == 0 || log_history.back().value("step", int64_t{0}) != steps) return std::nullopt;
  return sum / static_cast<double>(steps);
}

// accuracy: what mean_token_accuracy may be apart, beside its limit. A run may have `spread`, by how much two
// runs of TRL with different attention differ: where weights or products are bfloat16, the rounding of one
// step moves all that follow. After the first record twice that is added to the limit. Shares of pairs move
// by whole pairs: one whose rewards differ by less than rounding moves them may count on either side.
// Such a run's train_loss is compared with the mean of its own losses, each of which has its limit: that the
// differences of the two recorded runs cancel in their mean is chance.
inline void expect_records(const base::Json& golden, const base::Json& log_history, double accuracy = 0) {
  const base::Json& want = golden["log_history"];
  const double wide = golden["relative_tolerance"];
  const base::Json spread = golden.value("spread", base::Json::object());
  ASSERT_EQ(log_history.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    for (const auto& [name, value] : log_history[i].items()) {
      EXPECT_TRUE(want[i].contains(name) || is_wall_time(name) || name == "shared_tokens" ||
                  name == "silent_rows")  // not TRL's
          << "record " << i << " has " << name;
    }
    for (const auto& [name, value] : want[i].items()) {
      ASSERT_TRUE(log_history[i].contains(name)) << "record " << i << " lacks " << name;
      const double got = log_history[i][name];
      if (name.ends_with("mean_token_accuracy") && std::abs(got - value.get<double>()) < accuracy) continue;
      if (const auto mean = mean_of_losses(log_history); name == "train_loss" && mean && !spread.empty()) {
        EXPECT_NEAR(got, *mean, 1e-6 * std::abs(*mean));
        continue;
      }
      Limit limit = limits::record(name, wide);
      if (i > 0) limit.floor += 2 * spread.value(name, 0.0);
      if (i > 0 && spread.contains(name) && name.ends_with("rewards/accuracies"))
        limit.floor += 1 / golden["args"]["per_device_train_batch_size"].get<double>();
      EXPECT_TRUE(close(got, value, limit))
          << "record " << i << ", " << name << ": " << got << " instead of " << value;
    }
  }
}

inline std::span<const float> values_of(const at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<size_t>(tensor.numel())};
}

}  // namespace trl::test
