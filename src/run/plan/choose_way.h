// memory_budget: chooses the fastest way to compute a run that fits.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "run/environment.h"
#include "run/plan/plan.h"
#include "run/plan/ways.h"

namespace trl::run {

struct Choice {
  config::RunOptions options;  // with those of the way
  config::Levers levers;
  base::Json plan;  // of that way
};
// The plans that were made, by their options and levers.
using PlansMade = std::map<std::string, base::Json>;

// budget: resident bytes. Few ways are rehearsed: each form of recomputation without levers, and if that does
// not fit, a binary search between none and all of its levers. The log names the chosen way, and the bytes
// that the next faster one would have needed. Throws Error(invalid_config) with the smallest sufficient
// budget if no way fits. made: the plans of the same batches so
// far; new ones are added.
Choice choose_way(Environment& environment, const config::RunOptions& options, int64_t budget,
                  const RunSize& size, int64_t embedding_rows, const std::vector<int32_t>& new_tokens,
                  PlansMade& made);

}  // namespace trl::run
