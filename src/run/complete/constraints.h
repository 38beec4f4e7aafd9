// generate.regex, generate.choice and generate.json_schema as constraints on the tokens of a tokenizer.
#pragma once
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/json/json.h"
#include "config/config.h"
#include "engine/sampling.h"
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
  // is known of it, as long as anybody holds it. Throws Error(invalid_config) for a pattern or schema that is
  // refused, and for two of the keys; Error(cancelled) if the call's interrupt says so.
  std::shared_ptr<engine::Constraint> of(const config::Config& options);
  // The same, with what may follow the empty text looked up, which is the most work of all texts: throws
  // Error(invalid_config), too, if that is too much.
  std::shared_ptr<engine::Constraint> prepared(const config::Config& options);
  // The same, if that is known already; null: it is not, or the options ask for nothing.
  std::shared_ptr<engine::Constraint> known(const config::Config& options);

 private:
  static constexpr size_t kKept = 16;
  using Shared = std::shared_ptr<engine::Constraint>;
  Shared find(const std::string& name);
  Shared make(const config::Config& options, std::string_view key);
  Shared keep(const std::string& name, Shared made);
  std::shared_ptr<const text::TokenTrie> trie();

  const text::Tokenizer& tokenizer_;
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<engine::Constraint>> all_;  // by key and value
  std::list<Shared> kept_;                                        // the last used first
  std::mutex trie_mutex_;
  std::shared_ptr<const text::TokenTrie> trie_;  // null until it is needed
};

}  // namespace trl::run
