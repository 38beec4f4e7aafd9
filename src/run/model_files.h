// Facts from the files of a model and of its adapter, before either is opened.
#pragma once
#include <cstdint>
#include <string>

#include "config/config.h"

namespace trl::run {

std::string adapter_path(const config::Config& options);  // adapter_name_or_path; empty: none

// Whether config.json names a sequence classifier.
bool names_classifier(const std::string& directory);
// Whether an adapter makes one of its model.
bool makes_classifier(const std::string& adapter);

// Of adapter_name_or_path, for tokens that came with it; 0: as many as the model has, or there is no adapter.
int64_t adapter_embedding_rows(const config::Config& options);

// Where the tokenizer of a model lies: an adapter's own, which may have tokens that the adapter added, comes
// before the model's.
std::string tokenizer_path(const std::string& model, const config::Config& options);

// The path itself; where it is the directory of a saved adapter that of its base, and adapter_name_or_path
// becomes the directory.
std::string base_path(const std::string& path, config::Config& options);

// Whether a directory has a tokenizer of its own.
bool has_tokenizer(const std::string& directory);

// Whether a model, with the adapter that options name, gives scores. The files decide, whatever the method.
bool is_reward(const std::string& path, const config::Config& options);

}  // namespace trl::run
