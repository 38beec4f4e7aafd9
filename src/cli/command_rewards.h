// Entries `command:` of reward_funcs: programs that give rewards, as functions that a host adds to a trainer.
#pragma once
#include <memory>
#include <vector>

#include "cli/handles.h"

namespace trl::cli {

class CommandReward;

// Throws Failure if the number of weights is not that of the rewards, of which this command has no others
// than the options and a file of rollouts give.
void check_reward_weights(const Config& config);

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
