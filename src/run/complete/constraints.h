// generate.regex, generate.choice and generate.json_schema as constraints on the tokens of a tokenizer.
#pragma once
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/json/json.h"
#include "config/config.h"
#include "engine/engine.h"
#include "text/constraint/token_trie.h"

namespace trl::run {

// Returns what the options ask for as vLLM's structured_outputs, {regex | choice | json}; null: nothing.
// Throws Error(invalid_config) for two of the keys.
base::Json structured_outputs_of(const config::Config& options);

// any thread.
class Constraints {
 public:
  // The tokenizer outlives this.
  explicit Constraints(const text::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  // Returns what the options ask for; null: nothing. Requests that ask for the same share it, with all that
  // is known of it. Throws Error(invalid_config) for a pattern or schema that is refused, and for two of the
  // keys.
  std::shared_ptr<engine::Constraint> of(const config::Config& options);

 private:
  static constexpr size_t kKept = 16;
  using Named = std::pair<std::string, std::shared_ptr<engine::Constraint>>;

  const text::Tokenizer& tokenizer_;
  std::mutex mutex_;
  std::shared_ptr<const text::TokenTrie> trie_;  // null until it is needed
  std::list<Named> kept_;                        // by key and value, the last used first
};

}  // namespace trl::run
