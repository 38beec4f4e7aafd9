// memory_budget: chooses the fastest way to compute a run that fits.
#pragma once
#include <vector>

#include "run/environment.h"
#include "run/plan/plan.h"
#include "run/plan/ways.h"

namespace trl::run {

struct Choice {
  config::Config config;  // with the options of the way
  config::Levers levers;
  base::Json plan;  // of that way
};
// budget: resident bytes. Few ways are rehearsed: each form of recomputation without levers, and if that does
// not fit, a binary search between none and all of its levers. The log names the chosen way, and the bytes
// that the next faster one would have needed. Throws Error(invalid_config) with the smallest sufficient
// budget if no way fits. training: the values of config.
Choice choose_way(Environment& environment, const config::Config& config,
                  const config::TrainingArguments& training, int64_t budget, const RunSize& size,
                  int64_t embedding_rows, const std::vector<int32_t>& new_tokens);

}  // namespace trl::run
