// The rewards of a run's completions, in this order: of a reward model, of reward_funcs, of the host, and of
// a file that is replayed.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "config/online/online_arguments.h"
#include "data/prepare/preference.h"
#include "engine/rollout.h"
#include "reward/batch.h"
#include "run/environment.h"
#include "run/rollout/replay.h"
#include "run/rollout/rewards/answers.h"
#include "run/rollout/rewards/reward_options.h"

namespace trl::run {

class RewardFunctions {
 public:
  // Throws Error(invalid_config) for a name that is not known. replay: nullable; it says which rewards come
  // from its file.
  RewardFunctions(Environment& environment, const config::RunOptions& options, const Replay* replay);
  ~RewardFunctions();
  // Adds a function of the host, whose name is its metrics': instead of the entry `command:` of that name in
  // reward_funcs, or else after the others. Throws Error(invalid_config) for a name that is taken.
  void add(std::unique_ptr<reward::Reward> function);
  std::vector<std::string> names() const;  // in the order of weights
  // Throws Error(invalid_config) if there is no reward, or another number of weights, or no function for an
  // entry.
  void check() const;
  void check_columns(const data::PromptExample& prompt) const {
    check_reward_columns(arguments_, replayed_, prompt);
  }
  bool empty() const { return functions_.empty() && replayed_.empty(); }
  // Asks the host for rewards of these rows of a generation; see reward::Reward::begin. answers: theirs.
  void begin(const Answers& answers, std::span<const size_t> rows, std::span<const ReplayedRow> replayed);
  void forget();  // all that was begun
  // Whether rewards are still to come from the host, and none from a model, which needs the memory itself.
  bool late() const;
  // replayed: a row of the file for each completion, or empty.
  engine::Rewards score(const Answers& answers, std::span<const ReplayedRow> replayed);
  const reward::Columns& extras() const { return extras_; }  // of the last score()
  void tell() const;  // at the end of the run: warns of solutions and answers that could not be read

 private:
  std::vector<double> scored(reward::Reward& function, const Answers& answers, engine::Rewards& out);
  void take_failure(const reward::Reward& function, const Answers& answers, size_t row,
                    const std::string& why) const;

  const config::OnlineArguments arguments_;
  base::LogSink& log_;
  std::vector<std::unique_ptr<reward::Reward>> functions_;
  reward::Columns extras_;
  std::vector<std::string> replayed_;  // names of the file
  size_t given_ = 0;                   // functions of the options
};

}  // namespace trl::run
