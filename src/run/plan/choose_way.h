// memory_budget: the fastest way to compute a run that fits.
#pragma once
#include <vector>

#include "run/environment.h"
#include "run/plan/plan.h"
#include "run/plan/ways.h"

namespace trl::run {

struct Choice {
  config::Config config;  // with the options of the way
  config::Levers levers;
  base::Json plan;  // of it
};
// budget: resident bytes. Few ways are rehearsed: each form of recomputation as it is, and what is between it
// and all its levers where it does not fit. The log says which way was taken, and what the next faster one
// would have needed. Throws Error(invalid_config) with the smallest budget that would do where none fits.
// training: what config says.
Choice choose_way(Environment& environment, const config::Config& config,
                  const config::TrainingArguments& training, int64_t budget, const RunSize& size,
                  int64_t embedding_rows, const std::vector<int32_t>& new_tokens);

}  // namespace trl::run
