// Which parts of a model a configuration trains.
#pragma once
#include <span>
#include <string>

#include "base/log.h"
#include "config/config.h"
#include "model/model.h"

namespace trl::entry {

// What the model has at its end: the method decides.
model::Head head_of(const config::Config& config);

// use_peft: an adapter is trained and the model is frozen. path: of the model; new_tokens: of another model's
// tokenizer, which the adapter trains too.
void add_adapter(model::Model& model, const std::string& path, const config::Config& config,
                 std::span<const int32_t> new_tokens, base::LogSink& log);

// The factors of adapter_name_or_path, which is open, get the type that a run gives them.
void retype_adapter(model::Model& model, const config::Config& config);

// As transformers' Trainer refuses it: all weights trained, and some held in blocks.
void refuse_quantised(model::Model& model, const config::Config& config);

}  // namespace trl::entry
