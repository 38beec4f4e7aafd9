// Opens the model of a run.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "engine/engine.h"
#include "run/engine_object.h"
#include "run/environment.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::run {

struct Opening {
  int64_t embedding_rows = 0;  // rows that the embedding gets; 0: as many as the files have
  bool reward = false;         // its head gives scores
  bool mapped = false;         // these two as in engine::ModelSpec
  bool bf16 = false;
};
EngineObject<engine::Model> open_model(Environment& environment, const std::string& path,
                                       const config::Config& options, const Opening& how);
// Describes the same model for the engine. path, dtype (config::model_dtype): outlive the result.
engine::ModelSpec model_spec(std::string_view path, std::string_view dtype, const config::Config& options,
                             const Opening& how);

// Reads save.kind.
engine::SaveKind save_kind(std::string_view name);

// Returns the ids that end a completion: the tokenizer's EOS, and those that the model's files name.
std::vector<int32_t> end_tokens(engine::Model& model, const text::Tokenizer& tokenizer);

}  // namespace trl::run
