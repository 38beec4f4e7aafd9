// Refuses a budget.
#pragma once
#include <cstdint>
#include <string>

#include "base/json/json.h"
#include "config/training_arguments.h"

namespace trl::run {

// Throws Error(invalid_config): memory_budget is below the plan's peak, and no other way takes less.
// training: the values of config. Names the smallest sufficient budget, and the options that would lower the
// peak, the largest terms first.
[[noreturn]] void refuse_too_little(const config::Config& config, const config::TrainingArguments& training,
                                    int64_t budget, const base::Json& plan, const std::string& way);

}  // namespace trl::run
