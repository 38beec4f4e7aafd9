// Opens the files of a model, wherever they are, without reading weights; changes config.json and
// generation_config.json as Trainer does.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "engine/engine.h"
#include "io/model_source.h"
#include "model/config/model_config.h"
#include "model/weights/weights.h"

namespace trl::model {

struct ModelFiles {
  ModelConfig config;
  base::Json config_json;
  base::Json generation_config_json;
  std::vector<int32_t> end_ids;
};

struct OpenedFiles {
  ModelFiles files;
  std::string stored_dtype;  // from config.json or else the embedding's tensor: "bfloat16", "F16", "Q8_0"
  std::unique_ptr<WeightSource> weights;
};
OpenedFiles open_files(const io::ModelSource& from, Head head = Head::language);

// Writes the ids of the tokenizer's EOS, BOS and padding into both (SFTTrainer and Trainer's
// align_special_tokens). Ids that ended a completion before still do, unless they are replaced. generation:
// null: the model does not generate. Returns the changes, for the log: "eos_token_id 5 -> 7".
std::vector<std::string> align_special_tokens(base::Json& config, base::Json* generation,
                                              const engine::SpecialTokens& tokens);

}  // namespace trl::model
