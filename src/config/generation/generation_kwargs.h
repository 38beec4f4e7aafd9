// generation_kwargs: options of generation by the names of transformers and vLLM.
#pragma once
#include <string_view>

#include "base/error.h"
#include "config/config.h"

namespace trl::config {

struct GenerationKwargs {
  std::string_view key;  // whose entries they are
  // The reason why an entry may not change generate.num_return_sequences; empty: it may.
  std::string_view why_count = {};
};

// Sets options of the group generate to the entries of the key, over those that the configuration has. An
// entry that is null counts as not given. Throws Error(invalid_config) that names the key and the entry: for
// one that this build lacks or does not know, for a value that its option does not accept, and for two
// entries that contradict each other.
void apply_generation_kwargs(Config& out, const GenerationKwargs& from);

// Returns an error about an option of the group generate, or about its name without the group, as one about
// the entry of the key that has set it; other errors as they are.
Error named_as_entry(const Error& error, const Config& given, std::string_view key);

// Runs body, whose errors are named so.
template <class Body>
decltype(auto) with_entry_names(const Config& given, std::string_view key, const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    throw named_as_entry(error, given, key);
  }
}

// Returns whether the entries of a key have vLLM's structured_outputs.
bool has_structured_outputs(const Config& config, std::string_view key);

// Returns the configuration with the entries of generate.generation_kwargs. Throws the same errors, and one
// for a key that is set, is not the method's, and has the name of an option of the group (temperature).
Config with_generation_kwargs(const Config& config);

}  // namespace trl::config
