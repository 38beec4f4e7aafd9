// Runs with rewards, whose completions a server or the run itself writes.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "engine/rewarded.h"

namespace host {

inline Settings served(const Settings& settings, const std::string& url) {
  return with(settings, {{"vllm_mode", "server"}, {"vllm_server_base_url", url}});
}

// The ids that rewards saw, the numbers of each step, and the weights at the end.
struct Ran {
  std::vector<Json> ids = {}, losses = {};
  std::map<std::string, Tensor> weights = {};
};

// weights: the file that the run saves at its end.
inline Ran run_of(const Settings& settings, const std::string& weights) {
  Ran ran;
  Rewarded own(settings, [&](trl_rollout* rollout) {
    for (size_t i = 0; i < trl_rollout_count(rollout); ++i)
      ran.ids.push_back(row_of(rollout, i)["completion_ids"]);
    return reward_all(rollout);
  });
  EXPECT_EQ(own.train(), TRL_OK) << own.error.message();
  for (const Json& step : own.last())
    for (const char* name : {"loss", "grad_norm", "sampling/sampling_logp_difference/mean", "entropy"})
      if (step.contains(name)) ran.losses.push_back(step[name]);
  EXPECT_EQ(trl_trainer_save(own.trainer.get(), nullptr, nullptr, own.error), TRL_OK) << own.error.message();
  ran.weights = read_safetensors(weights);
  return ran;
}

}  // namespace host
