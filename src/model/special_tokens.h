// The tokens that end, begin and pad a text, in config.json and generation_config.json as Trainer leaves
// them.
#pragma once
#include <string>
#include <vector>

#include "base/json/json.h"
#include "engine/engine.h"

namespace trl::model {

// For a directory without a generation_config.json: the entries that transformers reads from config.json
// instead, and from then on keeps in a separate file. Entries that nothing else reads are removed from
// config.json.
base::Json take_generation_config(base::Json& config);

// Writes the tokenizer's ids into both (SFTTrainer and Trainer's align_special_tokens). Ids that ended a
// completion before still do, unless they are replaced. generation: null: the model does not generate.
// Returns the changes, for the log: "eos_token_id 5 -> 7".
std::vector<std::string> align_special_tokens(base::Json& config, base::Json* generation,
                                              const engine::SpecialTokens& tokens);

}  // namespace trl::model
