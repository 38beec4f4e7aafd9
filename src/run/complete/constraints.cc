#include "run/complete/constraints.h"

#include <algorithm>
#include <array>
#include <string_view>
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
  const std::string name = std::string(key) + "\n" + options.get(key);
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(kept_, name, &Named::first);
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
    return found->second;
  }
  const text::PatternTree tree = tree_of(options, key);
  if (trie_ == nullptr) trie_ = std::make_shared<const text::TokenTrie>(tokenizer_);
  kept_.emplace_front(name, std::make_shared<text::TokenConstraint>(tree, key, trie_));
  if (kept_.size() > kKept) kept_.pop_back();
  return kept_.front().second;
}

}  // namespace trl::run
