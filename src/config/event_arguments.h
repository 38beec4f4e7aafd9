// When a run logs, evaluates and saves, and what it loads at its start and end.
#pragma once
#include "config/config.h"
#include "config/training_arguments.h"

namespace trl::config {

void read_events(const Config& config,
                 TrainingArguments& out);  // out.lr_scheduler_type must have been read before

}  // namespace trl::config
