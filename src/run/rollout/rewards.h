// The rewards of a run's completions: of a reward model, of functions that ship with the library, of the
// host, and of a file that is replayed.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "config/online_arguments.h"
#include "engine/engine.h"
#include "run/rollout/replay.h"
#include "run/tokenizer.h"

namespace trl::run {

// The completions of a generation, with texts.
struct Answers {
  std::string_view mode;  // train or eval
  int64_t generation = 0;
  const engine::PromptRows* prompts = nullptr;
  std::span<const std::shared_ptr<const base::Json>> columns;  // the row of each prompt
  std::span<const engine::Completion> completions;
  std::vector<std::string> texts;  // without special tokens
};

class Rewards {
 public:
  // replayed: rewards by these names come from a file.
  Rewards(const config::OnlineArguments& arguments, std::vector<std::string> replayed);
  // Throws Error(invalid_config) if there is no reward, or another number of weights.
  void check() const;
  // replayed: the rows of the file, or empty.
  engine::Rewards score(const Answers& answers, std::span<const ReplayedRow> replayed);

 private:
  const config::OnlineArguments arguments_;
  const std::vector<std::string> replayed_;
};

}  // namespace trl::run
