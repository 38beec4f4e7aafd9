// Changes the special tokens of config.json and generation_config.json as Trainer does.
#pragma once
#include <string>
#include <vector>

#include "base/json/json.h"
#include "engine/trainer.h"

namespace trl::model {

// Writes the ids of the tokenizer's EOS, BOS and padding into both (SFTTrainer and Trainer's
// align_special_tokens). Ids that ended a completion before still do, unless they are replaced. generation:
// null: the model does not generate. Returns the changes, for the log: "eos_token_id 5 -> 7".
std::vector<std::string> align_special_tokens(base::Json& config, base::Json* generation,
                                              const engine::SpecialTokens& tokens);

}  // namespace trl::model
