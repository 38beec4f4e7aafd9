// The refusal of a budget.
#pragma once
#include <cstdint>
#include <string>

#include "base/json/json.h"
#include "config/training_arguments.h"

namespace trl::run {

// Throws Error(invalid_config): memory_budget is below what the plan takes, and no other way takes less.
// training: what config says. Names the smallest budget that would suffice, and what would lower it, the
// largest terms first.
[[noreturn]] void refuse_too_little(const config::Config& config, const config::TrainingArguments& training,
                                    int64_t budget, const base::Json& plan, const std::string& way);

}  // namespace trl::run
