// Reads the configuration of a run's model and tokenizer, and refuses runs, folders and references, before
// rows and weights are read.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "config/training_arguments.h"
#include "io/model_source.h"
#include "run/environment.h"
#include "run/open_model.h"
#include "run/tokenizer.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::run {

// Makes paths absolute, so that the run keeps its folders when the host changes its current folder; a model
// that is an adapter becomes the adapter's base.
config::Config with_whole_paths(config::Config config);
config::Config with_absolute_paths(config::Config config);
// Refuses options that exclude each other, and invalid prompts, before rows and weights are read. Throws
// Error that names the key.
void refuse_combinations(const config::Config& config, const config::TrainingArguments& arguments);

void refuse_tokens_beside_adapter(const config::Config& config);

// Sets model.new_tokens.
std::shared_ptr<Tokenizer> open_training_tokenizer(const config::Config& config, RunModel& model,
                                                   base::LogSink& log);

engine::SpecialTokens special_tokens(const text::Tokenizer& tokenizer, const config::Config& config);

// Opens the plug-in of attn_implementation; null: none is named.
EngineObject<engine::Attention> open_attention(Environment& environment, const config::RunOptions& options,
                                               const io::ModelSource& model);

bool takes_tokens_over(const config::Config& config);  // the tokens of another model

// Returns the rows that the embedding gets for the run's tokens; 0: as many as the model has.
int64_t wanted_embedding_rows(const config::Config& config, const Tokenizer& tokenizer);

// Refuses options that exclude each other, folders that cannot be written, an output directory of another
// run, a missing checkpoint to resume from or reference, and features that this build or machine lacks.
// options: from with_whole_paths(). Writes nothing. Throws Error with the key.
void check_run(Environment& environment, const config::RunOptions& options);

// Writes the warnings and notes about the options of a run to the log.
void tell_options(base::LogSink& log, const config::Config& config);

// Throws Error(io), which names the key, if the directory is not writable.
void need_writable(std::string_view key, const std::string& directory);

// Returns the value of key: a file in an existing, writable directory. nullopt: the value is null.
std::optional<std::string> output_path(const config::Config& config, const std::string& key);

// The language models that a run reads besides the one that it trains.
struct OtherModel {
  std::string_view key;
  std::string path;
};
std::vector<OtherModel> models_beside(const config::TrainingArguments& arguments);

// Checks the path that a key gives: accepts only a whole language model, no adapter and no classifier. Throws
// Error(invalid_config) otherwise.
void check_other_model(std::string_view key, const std::string& path);

// Checks that each id is the same token in the model of an option and in the one that is trained. A model
// without a tokenizer is not compared.
void check_tokens(std::string_view key, const io::ModelSource& model, const text::Tokenizer& trained);
// The same for models_beside(), and for the reward and value models of a method of episodes.
void check_tokens_of_models(const config::TrainingArguments& arguments, const text::Tokenizer& trained);

}  // namespace trl::run
