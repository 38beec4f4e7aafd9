// Reads facts from the files of a model and of its adapter, before either is opened.
#pragma once
#include <cstdint>
#include <string>

#include "config/config.h"

namespace trl::run {

std::string adapter_path(const config::Config& options);  // adapter_name_or_path; empty: no adapter

// Says whether config.json names a sequence classifier.
bool names_classifier(const std::string& directory);
// Says whether an adapter turns its model into one.
bool makes_classifier(const std::string& adapter);

// Returns the embedding rows of adapter_name_or_path, for tokens that came with it; 0: as many as the model
// has, or no adapter.
int64_t adapter_embedding_rows(const config::Config& options);

// Returns the path of a model's tokenizer: an adapter's own, which may have tokens that the adapter added,
// takes precedence over the model's.
std::string tokenizer_path(const std::string& model, const config::Config& options);

// Returns the path itself; if it is the directory of a saved adapter, the path of its base, and
// adapter_name_or_path becomes the directory.
std::string base_path(const std::string& path, config::Config& options);

// Says whether a directory has its own tokenizer.
bool has_tokenizer(const std::string& directory);

// Says whether a model, with the adapter that options name, gives scores. The files decide, whatever the
// method.
bool is_reward(const std::string& path, const config::Config& options);

}  // namespace trl::run
