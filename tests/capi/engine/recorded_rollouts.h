// The completions and rewards of a recorded run of TRL: as functions of a host, and as a file for
// replay_rollouts.
#pragma once
#include <cmath>

#include "engine/run.h"

namespace host {

inline bool writes_completions(const Json& recorded) {
  return recorded.contains("generations") && recorded["generations"].is_array();
}

// "nan" and null are none. Older cases have the sum of one function's.
inline Json reward_of(const Json& generation, size_t row, size_t function) {
  const Json& value = generation.contains("rewards_per_func") ? generation["rewards_per_func"][row][function]
                                                              : generation["rewards"][row];
  return value.is_number() ? value : Json();
}

// The ids of a prompt without its padding.
inline Json prompt_of(const Json& generation, size_t row) {
  const Json& ids = generation["prompt_ids"][row];
  if (!generation.contains("prompt_mask")) return ids;
  Json own = Json::array();
  for (size_t i = 0; i < ids.size(); ++i)
    if (generation["prompt_mask"][row][i] == 1) own.push_back(ids[i]);
  return own;
}

// "model:qwen2_rm" is the reward model models/qwen2_rm.
inline constexpr std::string_view kModel = "model:";
inline bool is_model(const std::string& reward) { return reward.starts_with(kModel); }

// Empty: none is.
inline std::string reward_model_of(const Json& recorded) {
  for (const Json& reward : recorded["rewards"]) {
    const auto name = reward.get<std::string>();
    if (is_model(name)) return golden("models/" + name.substr(kModel.size()));
  }
  return {};
}

// The rollout file of a run. rows: their numbers in the dataset are places in the file that is trained on.
inline std::string replay_file(const Json& recorded) {
  std::string lines;
  std::map<std::string, int64_t> made;
  for (const Json& generation : recorded["generations"]) {
    // the recording took that of the model that wrote, and a teacher is in evaluation
    const std::string mode = generation.contains("micro_step") ? "train" : generation.value("mode", "train");
    for (size_t row = 0; row < generation["completion_ids"].size(); ++row) {
      Json line = {{"mode", mode},
                   {"generation", made[mode]},
                   {"prompt_ids", prompt_of(generation, row)},
                   {"completion_ids", generation["completion_ids"][row]}};
      if (generation.contains("sampling_logps")) line["logprobs"] = generation["sampling_logps"][row];
      for (size_t f = 0; f < recorded["rewards"].size(); ++f)
        if (const auto name = recorded["rewards"][f].get<std::string>(); !is_model(name))
          line["rewards"][name] = reward_of(generation, row, f);
      lines += line.dump() + "\n";
    }
    ++made[mode];
  }
  return lines;
}

// Adds functions to a trainer that give what was recorded, generation by generation. Outlives its trainer.
class RecordedRollouts {
 public:
  // writes: it gives the completions too; else its rewards expect the trainer's own to be these.
  explicit RecordedRollouts(const Json& recorded, bool writes = true)
      : recorded_(recorded), writes_(writes) {}

  void add_to(trl_trainer* trainer) {
    Error error;
    if (writes_) {
      EXPECT_EQ(trl_trainer_set_rollout(trainer, write, this, nullptr, error), TRL_OK) << error.message();
    }
    rewards_.reserve(recorded_["rewards"].size());
    for (size_t f = 0; f < recorded_["rewards"].size(); ++f) {
      const std::string name = recorded_["rewards"][f];
      if (is_model(name)) continue;
      rewards_.push_back({this, f});
      EXPECT_EQ(trl_trainer_add_reward(trainer, name.c_str(), reward, &rewards_.back(), nullptr, error),
                TRL_OK)
          << error.message();
    }
  }

 private:
  struct Function {
    RecordedRollouts* of;
    size_t number;
  };
  const Json& now() const { return recorded_["generations"][made_ - 1]; }

  // The turn that is asked for: prompts and completions. A generation without turns is one.
  Json next_turn() {
    if (made_ == 0 || !now().contains("turns") || turns_ == now()["turns"].size()) {
      ++made_;
      turns_ = 0;
    }
    if (!now().contains("turns")) return now();
    Json turn = now()["turns"][turns_];
    if (turns_++ == 0) turn["prompt_ids"] = now()["prompt_ids"];
    return turn;
  }
  bool ended() const {
    return made_ >= recorded_["generations"].size() &&
           (!now().contains("turns") || turns_ == now()["turns"].size());
  }

  static int32_t write(void* user_data, trl_rollout* rollout) {
    auto* const own = static_cast<RecordedRollouts*>(user_data);
    if (own->ended()) return -1;
    const Json turn = own->next_turn();
    Error error;
    EXPECT_EQ(trl_rollout_count(rollout), turn["completion_ids"].size());
    for (size_t row = 0; row < trl_rollout_count(rollout); ++row) {
      const auto ids = turn["completion_ids"][row].get<std::vector<int32_t>>();
      const Json more = turn.value("rollout", Json::object());
      std::vector<float> log_probs;
      std::vector<uint8_t> written;
      for (const Json& values : {turn.value("sampling_logps", Json()), more.value("logprobs", Json())})
        for (size_t t = 0; values.is_array() && t < ids.size(); ++t)
          log_probs.push_back(values[row][t].is_null() ? std::nanf("") : values[row][t].get<float>());
      if (more.contains("env_mask")) written = more["env_mask"][row].get<std::vector<uint8_t>>();
      const char* json = nullptr;
      EXPECT_EQ(trl_rollout_get(rollout, row, &json, error), TRL_OK) << error.message();
      EXPECT_EQ(host::parse(json)["prompt_ids"], prompt_of(turn, row)) << "row " << row;
      EXPECT_EQ(trl_rollout_set_completion(rollout, row, ids.data(), ids.size(),
                                           log_probs.empty() ? nullptr : log_probs.data(),
                                           written.empty() ? nullptr : written.data(), nullptr, error),
                TRL_OK)
          << error.message();
    }
    return TRL_OK;
  }

  // Rewards of a trainer that writes its own completions: they are the recorded ones.
  void expect_written(trl_rollout* rollout) {
    ASSERT_LT(made_, recorded_["generations"].size());
    const Json& generation = recorded_["generations"][made_++];
    const char* const ids =
        generation.contains("padded_completion_ids") ? "padded_completion_ids" : "completion_ids";
    for (size_t row = 0; row < trl_rollout_count(rollout); ++row) {
      const char* json = nullptr;
      Error error;
      ASSERT_EQ(trl_rollout_get(rollout, row, &json, error), TRL_OK) << error.message();
      EXPECT_EQ(host::parse(json)["completion_ids"], generation[ids][row]) << "row " << row;
    }
  }

  // Rewards of completions with turns see all of their messages.
  void expect_turns(trl_rollout* rollout) const {
    for (size_t row = 0; row < trl_rollout_count(rollout); ++row) {
      const char* json = nullptr;
      Error error;
      ASSERT_EQ(trl_rollout_get(rollout, row, &json, error), TRL_OK) << error.message();
      const Json seen = host::parse(json);
      EXPECT_EQ(seen["completion_ids"], now()["completion_ids"][row]) << "row " << row;
      EXPECT_EQ(seen["completion"], now()["completions_text"][row]) << "row " << row;
      if (now().contains("prompts_text")) {
        EXPECT_EQ(seen["prompt"], now()["prompts_text"][row]) << "row " << row;
      }
    }
  }

  // The metrics and columns of the function logs_extra.
  void log(trl_rollout* rollout) const {
    double sum = 0, longest = 0;
    for (const Json& ids : now()["completion_ids"]) {
      sum += static_cast<double>(ids.size());
      longest = std::max(longest, static_cast<double>(ids.size()));
    }
    Error error;
    const double mean = sum / static_cast<double>(trl_rollout_count(rollout));
    EXPECT_EQ(trl_rollout_log(rollout, "half_length", mean / 2, error), TRL_OK) << error.message();
    EXPECT_EQ(trl_rollout_log(rollout, "longest", longest, error), TRL_OK) << error.message();
    for (size_t row = 0; row < trl_rollout_count(rollout); ++row) {
      const Json& ids = now()["completion_ids"][row];
      for (const auto& [name, value] :
           {std::pair("first_id", Json(ids[0])), std::pair("even", Json(ids.size() % 2 == 0 ? "yes" : "no"))})
        EXPECT_EQ(trl_rollout_set_value(rollout, row, name, value.dump().c_str(), error), TRL_OK)
            << error.message();
    }
  }

  static int32_t reward(void* user_data, trl_rollout* rollout) {
    const auto* const function = static_cast<const Function*>(user_data);
    if (!function->of->writes_ && function->number == 0) function->of->expect_written(rollout);
    if (function->of->now().contains("turns")) function->of->expect_turns(rollout);
    if (function->of->recorded_["rewards"][function->number] == "logs_extra") function->of->log(rollout);
    Error error;
    for (size_t row = 0; row < trl_rollout_count(rollout); ++row) {
      const Json value = reward_of(function->of->now(), row, function->number);
      EXPECT_EQ(
          trl_rollout_set_reward(rollout, row, value.is_null() ? std::nan("") : value.get<double>(), error),
          TRL_OK)
          << error.message();
    }
    return TRL_OK;
  }

  const Json& recorded_;
  const bool writes_;
  size_t made_ = 0, turns_ = 0;
  std::vector<Function> rewards_;
};

}  // namespace host
