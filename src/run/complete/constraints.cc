#include "run/complete/constraints.h"

#include <algorithm>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text/utf8.h"
#include "text/constraint/pattern_parser.h"
#include "text/constraint/schema.h"
#include "text/constraint/token_constraint.h"

namespace trl::run {

namespace {

constexpr std::string_view kRegex = "generate.regex", kChoice = "generate.choice",
                           kSchema = "generate.json_schema";
constexpr size_t kMostChoiceBytes = size_t{64} << 10, kMostSchemaBytes = size_t{256} << 10;

// Returns which of the keys has a value; empty: none.
std::string_view given_key(const config::Config& options) {
  std::string_view given;
  for (const std::string_view key : {kRegex, kChoice, kSchema}) {
    const std::string value = options.get(key);
    if (value == "null" || value == "[]") continue;
    if (!given.empty()) fail_key(key, "{}: it cannot be kept together with {}; give one of them", key, given);
    given = key;
  }
  return given;
}

text::PatternTree choice_tree(const std::vector<std::string>& texts) {
  std::vector<text::PatternTree> all;
  size_t bytes = 0;
  for (const std::string& one : texts) {
    if (one.empty()) fail_key(kChoice, "{}: a text is empty; give at least one character", kChoice);
    if (base::find_invalid_utf8(one) != base::kValid)
      fail_key(kChoice, "{}: {} is not UTF-8", kChoice, base::one_line(one));
    bytes += one.size();
    all.push_back(text::PatternTree::literal(one));
  }
  if (bytes > kMostChoiceBytes)
    fail_key(kChoice, "{}: the texts have {} bytes; at most {} are accepted", kChoice, bytes,
             kMostChoiceBytes);
  return text::PatternTree::choice(std::move(all));
}

text::PatternTree tree_of(const config::Config& options, std::string_view key) {
  if (key == kRegex) return text::parse_pattern(options.get(key), key);
  if (key == kChoice) return choice_tree(options.get_list(key));
  const std::string schema = options.get(key);
  if (schema.size() > kMostSchemaBytes)
    fail_key(key, "{}: the schema has {} bytes; at most {} are accepted", key, schema.size(),
             kMostSchemaBytes);
  return text::parse_schema(base::parse_json(schema, key), key);
}

std::string name_of(const config::Config& options, std::string_view key) {
  return std::string(key) + "\n" + options.get(key);
}

}  // namespace

base::Json structured_outputs_of(const config::Config& options) {
  const std::string_view key = given_key(options);
  if (key.empty()) return nullptr;
  if (key == kRegex) return {{"regex", options.get(key)}};
  if (key == kChoice) return {{"choice", options.get_list(key)}};
  return {{"json", base::parse_json(options.get(key), key)}};
}

std::shared_ptr<engine::Constraint> Constraints::of(const config::Config& options) {
  const std::string_view key = given_key(options);
  if (key.empty()) return nullptr;
  const std::string name = name_of(options, key);
  if (Shared found = find(name)) return found;
  return keep(name, make(options, key));
}

std::shared_ptr<engine::Constraint> Constraints::prepared(const config::Config& options) {
  const std::string_view key = given_key(options);
  if (key.empty()) return nullptr;
  const std::string name = name_of(options, key);
  if (Shared found = find(name)) return found;
  Shared made = make(options, key);
  std::string_view why = text::TokenConstraint::kNoMemory;
  const engine::Constraint::Place start = made->start();
  if (start == nullptr || made->allowed(start, why) == nullptr) {
    if (why == text::TokenConstraint::kNoMemory) throw std::bad_alloc();
    fail_key(key, "{}: {}", key, why);
  }
  return keep(name, std::move(made));
}

std::shared_ptr<engine::Constraint> Constraints::known(const config::Config& options) {
  const std::string_view key = given_key(options);
  return key.empty() ? nullptr : find(name_of(options, key));
}

std::shared_ptr<engine::Constraint> Constraints::find(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = all_.find(name);
  Shared one = found == all_.end() ? nullptr : found->second.lock();
  if (const auto place = std::ranges::find(kept_, one); place != kept_.end())
    kept_.splice(kept_.begin(), kept_, place);
  return one;
}

// No lock is held meanwhile: another request may need one that is known.
std::shared_ptr<engine::Constraint> Constraints::make(const config::Config& options, std::string_view key) {
  return std::make_shared<text::TokenConstraint>(tree_of(options, key), key, trie());
}

// Returns the one that others use, if another thread has made it meanwhile.
std::shared_ptr<engine::Constraint> Constraints::keep(const std::string& name, Shared made) {
  if (Shared found = find(name)) return found;
  const std::lock_guard lock(mutex_);
  std::erase_if(all_, [](const auto& one) { return one.second.expired(); });
  kept_.push_front(made);
  all_[name] = made;
  if (kept_.size() > kKept) kept_.pop_back();
  return made;
}

std::shared_ptr<const text::TokenTrie> Constraints::trie() {
  const std::lock_guard lock(trie_mutex_);
  if (trie_ == nullptr) trie_ = std::make_shared<const text::TokenTrie>(tokenizer_);
  return trie_;
}

}  // namespace trl::run
