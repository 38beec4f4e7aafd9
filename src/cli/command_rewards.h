// Entries `command:` of reward_funcs: programs that give rewards, as functions that a host adds to a trainer.
#pragma once
#include <memory>
#include <vector>

#include "cli/handles.h"

namespace trl::cli {

class CommandReward;

// Throws Failure if there is no reward, or another number of weights: this command has no other rewards than
// the options and a file of rollouts give. rewarded: its trainer takes rewards.
void check_rewards(const Config& config, bool rewarded);

class CommandRewards {
 public:
  // Adds the programs of the configuration to the trainer, which calls them only in this object's life. Each
  // is started when it is first needed, and ends with this object.
  CommandRewards(const Config& config, const Trainer& trainer);
  ~CommandRewards();

 private:
  std::vector<std::unique_ptr<CommandReward>> rewards_;
};

}  // namespace trl::cli
