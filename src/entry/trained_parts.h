// Decides which parts of a model a configuration trains: all of it, or an adapter and a new head.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "base/log.h"
#include "config/config.h"
#include "model/model.h"

namespace trl::entry {

// Returns the head that the method needs.
model::Head head_of(const config::Config& config);

// Adds an adapter to train (use_peft) and freezes the model. path: of the model; new_tokens: from another
// model's tokenizer, which the adapter trains too.
void add_adapter(model::Model& model, const std::string& path, const config::Config& config,
                 std::span<const int32_t> new_tokens, base::LogSink& log);

// Converts the factors of adapter_name_or_path, which is open, to the type that a run gives them.
void retype_adapter(model::Model& model, const config::Config& config);

// Refuses, as transformers' Trainer does, to train all weights while some are held in blocks.
void refuse_quantised(model::Model& model, const config::Config& config);

}  // namespace trl::entry
