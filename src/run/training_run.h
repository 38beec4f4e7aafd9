// Reads the configuration of a run's model and tokenizer, before either is opened.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "config/run_options.h"
#include "run/engine_object.h"
#include "run/environment.h"
#include "run/tokenizer.h"

namespace trl::run {

std::string needed_model_path(const config::Config& config);

// Makes paths absolute, so that the run keeps its folders when the host changes its current folder; a model
// that is an adapter becomes the adapter's base.
config::Config with_whole_paths(config::Config config);
config::Config with_absolute_paths(config::Config config);
// Refuses options that exclude each other, and invalid prompts, before rows and weights are read. Throws
// Error that names the key.
void refuse_combinations(const config::Config& config, const config::TrainingArguments& arguments);

void refuse_tokens_beside_adapter(const config::Config& config);

// new_tokens: gets the tokens that the tokenizer of the model, or of its adapter, does not have.
std::shared_ptr<Tokenizer> open_training_tokenizer(const config::Config& config,
                                                   const std::string& model_path,
                                                   std::vector<int32_t>& new_tokens, base::LogSink& log);

engine::SpecialTokens special_tokens(const text::Tokenizer& tokenizer, const config::Config& config);

// Opens the plug-in of attn_implementation; null: none is named.
EngineObject<engine::Attention> open_attention(Environment& environment, const config::RunOptions& options,
                                               const std::string& model_path);

bool takes_tokens_over(const config::Config& config);  // the tokens of another model

// Returns the rows that the embedding gets for the run's tokens; 0: as many as the model has.
int64_t wanted_embedding_rows(const config::Config& config, const Tokenizer& tokenizer);

}  // namespace trl::run
