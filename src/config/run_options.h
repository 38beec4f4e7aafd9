// The options of a run with their values, which are read once and handed on, to the engine too.
#pragma once
#include <utility>

#include "config/training_arguments.h"

namespace trl::config {

struct RunOptions {
  // Throws the errors of training_arguments().
  explicit RunOptions(Config given) : config(std::move(given)), arguments(training_arguments(config)) {}

  Config config;
  TrainingArguments arguments;  // the values of config
};

}  // namespace trl::config
