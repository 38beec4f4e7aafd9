// The rollouts of a run: prompts, samplings, rewards and files, as the engine's trainer takes them.
#pragma once
#include <memory>
#include <optional>

#include "config/training_arguments.h"
#include "engine/model.h"
#include "engine/rollout.h"
#include "engine/trainer.h"
#include "run/environment.h"
#include "run/rollout/rollout_rows.h"
#include "run/rows/prepare.h"

namespace trl::run {

class Rollouts {
 public:
  // prepared: of a method that writes completions; its tools outlive this.
  Rollouts(Environment& environment, const config::RunOptions& options, const Prepared& prepared,
           std::shared_ptr<Tokenizer> tokenizer);
  RewardFunctions& rewards() { return *parts_.rewards; }
  // written: called when the host has written a generation, all of its turns. Throws Error(invalid_config)
  // for a run that draws prompts again.
  void write_by(HostWriter::Function host, std::function<void()> written);
  // Throws Error(invalid_config) for a run without tools.
  void call_tools_by(ToolHost::Function host);
  // Throws Error(invalid_config) if functions of the host are missing, or options do not suit the rewards.
  void check() const;
  // Writes the completions of a record of the run, and returns those to show; empty: none.
  std::string at_record(const engine::Event& event) { return parts_.log->at_record(event); }
  // Returns the specification, which is valid while this lives. model: the one that is trained.
  const engine::RolloutSpec& spec(Environment& environment, engine::Model& model);

 private:
  const config::RunOptions& options_;
  RolloutParts parts_;
  RolloutRows train_;
  std::optional<RolloutRows> eval_;
  engine::RolloutSpec spec_;
};

}  // namespace trl::run
