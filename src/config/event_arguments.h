// Reads when a run logs, evaluates and saves, and the checkpoints that it loads at its start and end.
#pragma once
#include "config/config.h"
#include "config/training_arguments.h"

namespace trl::config {

// out.lr_scheduler_type must have been read before.
void read_events(const Config& config, TrainingArguments& out);

}  // namespace trl::config
