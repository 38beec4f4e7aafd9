// A run of GRPO with a reward of this process.
#pragma once
#include <trl.h>

#include <vector>

#include "support/runs.h"

namespace trl::bench {

class RewardedRun {
 public:
  // options: of the run, by key. rows: prompts.
  RewardedRun(const Json& options, int64_t rows);
  ~RewardedRun() { trl_trainer_destroy(trainer_); }
  RewardedRun(const RewardedRun&) = delete;
  RewardedRun& operator=(const RewardedRun&) = delete;

  // Returns its seconds.
  double step();
  // A metric of the last step.
  double metric(const char* name) const;
  const std::vector<Json>& ids() const { return ids_; }  // that it has learned on

 private:
  static int32_t reward(void* self, trl_rollout* rollout);

  trl_trainer* trainer_ = nullptr;
  const trl_metrics* metrics_ = nullptr;
  std::vector<Json> ids_;
};

}  // namespace trl::bench
