// The prompts of a run of a method that writes completions, and those of its evaluation.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "config/config.h"
#include "config/online/online_arguments.h"
#include "config/training_arguments.h"
#include "data/prepare/prepare_context.h"
#include "io/model_source.h"
#include "run/rollout/prompts.h"
#include "run/rows/batch_source.h"
#include "run/rows/rows.h"

namespace trl::run {

// Returns the tokens that a prompt may have beside a whole completion; nullopt: any number, as rows are cut
// before the model sees them, or the model names no longest sequence. Throws Error(invalid_config) if no
// prompt has room, and none may be without it.
std::optional<int64_t> prompt_room(const config::Config& config, const config::OnlineArguments& online,
                                   const io::ModelSource& model);

// Prepares the prompts. room: see prompt_room. evaluation: each prompt once, in an order of its own.
std::shared_ptr<Prompts> run_prompts(const config::Config& config, const config::TrainingArguments& training,
                                     const Rows& dataset, data::PrepareContext& context,
                                     std::optional<int64_t> room, bool evaluation);

// Returns batches that say only how large the rows can be. repeats: micro-batches that train on a generation.
std::unique_ptr<Batches> batches_of_prompts(const std::shared_ptr<Prompts>& prompts,
                                            const config::OnlineArguments& online, int64_t repeats);

}  // namespace trl::run
