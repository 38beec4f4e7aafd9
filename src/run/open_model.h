// The model of a run: facts from its files and from those of its adapter, and how it is opened.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "io/model_source.h"
#include "run/environment.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::run {

// The model of a run, with the changes that its tokenizer makes.
struct RunModel {
  io::ModelSource source;
  int64_t embedding_rows = 0;            // that the embedding gets; 0: as many as the files have
  std::vector<int32_t> new_tokens = {};  // that the tokenizer of the model, or of its adapter, does not have
};

// Returns the model of model_name_or_path. Throws Error(invalid_config) without one.
io::ModelSource needed_model(const config::Config& config);

io::ModelSource named_model(const config::Config& config);  // the same, or an empty one

std::string adapter_path(const config::Config& options);  // adapter_name_or_path; empty: no adapter

// Says whether config.json names a sequence classifier.
bool names_classifier(const base::NamedFiles& files);
// Says whether an adapter turns its model into one.
bool makes_classifier(const std::string& adapter);

// Returns the longest sequence that a model's configuration names (max_position_embeddings, n_positions, or
// GGUF's context_length); 0: none.
int64_t named_positions(const base::Json& config);
int64_t named_positions(const io::ModelSource& model);

// Returns the number of embedding rows that a model's files name (vocab_size); 0: they name none.
int64_t named_embedding_rows(const base::Json& config);
int64_t named_embedding_rows(const io::ModelSource& model);

// Returns the embedding rows of adapter_name_or_path, for tokens that came with it; 0: as many as the model
// has, or no adapter.
int64_t adapter_embedding_rows(const config::Config& options);

// Returns the files of a model's tokenizer: an adapter's own, which may have tokens that the adapter added,
// take precedence over the model's.
io::ModelSource tokenizer_source(const io::ModelSource& model, const config::Config& options);

// Returns the path itself; if it is the directory of a saved adapter, the path of its base, and
// adapter_name_or_path becomes the directory.
std::string base_path(const std::string& path, config::Config& options);

// Says whether the files of a model or an adapter have a tokenizer.
bool has_tokenizer(const base::NamedFiles& files);

// Says whether a model, with the adapter that options name, gives scores. The files decide, whatever the
// method.
bool is_reward(const io::ModelSource& model, const config::Config& options);

struct Opening {
  int64_t embedding_rows = 0;  // rows that the embedding gets; 0: as many as the files have
  bool reward = false;         // its head gives scores
  bool mapped = false;         // these two as in engine::ModelSpec
  bool bf16 = false;
};
EngineObject<engine::Model> open_model(Environment& environment, const io::ModelSource& source,
                                       const config::Config& options, const Opening& how);
// Describes the same model for the engine. dtype (config::model_dtype): outlives the result.
engine::ModelSpec model_spec(const io::ModelSource& source, std::string_view dtype,
                             const config::Config& options, const Opening& how);

// Reads save.kind.
engine::SaveKind save_kind(std::string_view name);

// Returns the ids that end a completion: the tokenizer's EOS, and those that the model's files name.
std::vector<int32_t> end_tokens(engine::Model& model, const text::Tokenizer& tokenizer);

}  // namespace trl::run
