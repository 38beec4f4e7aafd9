// Runs of GRPO on four prompts, whose completions a function of the host rewards.
#pragma once
#include <functional>

#include "engine/run.h"

namespace host {

using Function = std::function<int32_t(trl_rollout*)>;

inline constexpr const char* kPrompts = R"({"prompt": "Tell me of the sea:", "target": 1}
{"prompt": "Describe the castle:", "target": 2}
{"prompt": "What is a tensor?", "target": 3}
{"prompt": "Name a planet:", "target": 4}
)";

inline int32_t call(void* user_data, trl_rollout* rollout) {
  return (*static_cast<Function*>(user_data))(rollout);
}

inline Settings grpo(const std::string& output_dir, const Settings& more = {}) {
  const Settings own = {{"method", "grpo"},     {"num_generations", "2"},  {"max_completion_length", "5"},
                        {"max_steps", "3"},     {"learning_rate", "0.01"}, {"save_strategy", "no"},
                        {"eval_strategy", "no"}};
  return host::with(host::with(host::tiny(output_dir), own), more);
}

inline Settings online_dpo(const std::string& output_dir, const Settings& more = {}) {
  const Settings own = {{"method", "online_dpo"},  {"max_new_tokens", "5"}, {"max_steps", "3"},
                        {"learning_rate", "0.01"}, {"save_strategy", "no"}, {"eval_strategy", "no"}};
  return host::with(host::with(host::tiny(output_dir), own), more);
}

inline Settings ppo(const std::string& output_dir, const Settings& more = {}) {
  const Settings own = {{"method", "ppo"},
                        {"response_length", "5"},
                        {"per_device_train_batch_size", "2"},
                        {"gradient_accumulation_steps", "2"},
                        {"max_steps", "3"},
                        {"save_strategy", "no"}};
  return host::with(host::with(host::tiny(output_dir), own), more);
}

inline Json row_of(trl_rollout* rollout, size_t index) {
  const char* json = nullptr;
  Error error;
  EXPECT_EQ(trl_rollout_get(rollout, index, &json, error), TRL_OK) << error.message();
  return host::parse(json);
}

// As many points as the sum of the ids leaves.
inline double points(const Json& row) {
  int64_t sum = 0;
  for (const Json& id : row["completion_ids"]) sum += id.get<int64_t>();
  return static_cast<double>(sum % 7);
}

inline int32_t reward_all(trl_rollout* rollout) {
  Error error;
  for (size_t i = 0; i < trl_rollout_count(rollout); ++i)
    EXPECT_EQ(trl_rollout_set_reward(rollout, i, points(row_of(rollout, i)), error), TRL_OK);
  return TRL_OK;
}

// A trainer with one reward. eval: rows, or null.
struct Rewarded {
  Rewarded(const Settings& settings, Function by, const char* train = kPrompts, const char* eval = nullptr)
      : rows(host::rows(train)),
        eval_rows(eval != nullptr ? host::rows(eval) : nullptr),
        reward(std::move(by)),
        trainer(host::trainer(settings, rows.get(), eval_rows.get())) {
    EXPECT_EQ(trl_trainer_add_reward(trainer.get(), "points", call, &reward, nullptr, error), TRL_OK)
        << error.message();
  }
  trl_status train() { return trl_trainer_train(trainer.get(), nullptr, nullptr, error); }
  Json last() { return host::state(trainer.get())["log_history"]; }

  Error error;
  host::Dataset rows, eval_rows;
  Function reward;
  host::Trainer trainer;
};

}  // namespace host
