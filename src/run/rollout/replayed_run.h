// Whether a file of completions lasts for a run.
#pragma once
#include <cstdint>

#include "engine/rollout.h"
#include "run/rollout/answer_choice.h"
#include "run/rollout/prompts.h"
#include "run/rollout/replay.h"

namespace trl::run {

// A run before a generation.
struct ReplayedRun {
  const Replay& replay;
  Prompts& train;
  Prompts* eval = nullptr;               // or null
  const AnswerChoice* choice = nullptr;  // GKD; or null
  int64_t generation = 0;                // generations of training that the file has given so far
  bool schedule_needs_length = false;    // config::schedule_needs_length
};

// Throws Error(invalid_config) that says how many lines the file has from its place on and how many the run
// needs, or which generation has another number of them than the run's.
void check_replay(const ReplayedRun& replayed, const engine::RunAhead& run);

}  // namespace trl::run
