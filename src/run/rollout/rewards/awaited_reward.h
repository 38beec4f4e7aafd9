// Entries of reward_funcs, whose programs only a host runs.
#pragma once
#include <memory>
#include <string>
#include <utility>

#include "reward/batch.h"

namespace trl::run {

// Holds the place of a program's rewards until the host adds them.
class AwaitedReward final : public reward::Reward {
 public:
  AwaitedReward(std::string name, std::string spec) : name_(std::move(name)), spec_(std::move(spec)) {}
  std::string_view name() const override { return name_; }
  reward::Rewards score(const reward::RewardBatch&) override { refuse(); }
  [[noreturn]] void refuse() const;

 private:
  const std::string name_, spec_;
};

// Returns the reward of an entry: a function of the library, or an AwaitedReward. Throws
// Error(invalid_config) for a name that is not known.
std::unique_ptr<reward::Reward> reward_of(const std::string& spec);

// Returns the reward if it is still awaited; else null.
const AwaitedReward* awaited(const reward::Reward& function);

}  // namespace trl::run
