// A sequence classifier as a reward (reward_model_name_or_path).
#pragma once
#include <memory>
#include <string>

#include "config/training_arguments.h"
#include "reward/batch.h"
#include "run/environment.h"

namespace trl::run {

std::string reward_model_name(const std::string& path);  // the last part of the path

// Throws Error, which names the key, if no classifier is there. Reads no weights.
void check_reward_model(const std::string& path);

// Opens the model, which was checked, and its own tokenizer. It scores the text of a prompt and its
// completion: a conversation by the tokenizer's chat template; no special tokens are added. For a method of
// episodes it scores their tokens, as those of its own vocabulary, at the last one. Throws Error that names
// the key.
std::unique_ptr<reward::Reward> open_reward_model(Environment& environment,
                                                  const config::RunOptions& options);

}  // namespace trl::run
