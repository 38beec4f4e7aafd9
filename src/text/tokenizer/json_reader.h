// Reads tokenizer.json and its neighbours.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json/json.h"

namespace trl::text {

// Returns "a number", "an object" ...
inline std::string kind_of(const base::Json& value) {
  if (value.is_null()) return "null";
  return (value.is_object() ? "an " : "a ") + base::json_type(value);
}

// A value of a JSON file together with its position in it, so that every error names file and key.
class Field {
 public:
  Field(const base::Json& value, std::string where) : value_(&value), where_(std::move(where)) {}

  const base::Json& value() const { return *value_; }
  const std::string& where() const { return where_; }
  bool is_object() const { return value_->is_object(); }

  Field at(const char* key) const {
    if (std::optional<Field> field = find(key)) return *field;
    fail(Status::format, "{}: '{}' is missing", where_, key);
  }
  // nullopt: absent or null
  std::optional<Field> find(const char* key) const {
    if (!value_->is_object()) wrong("an object");
    const auto found = value_->find(key);
    if (found == value_->end() || found->is_null()) return std::nullopt;
    return Field(*found, where_ + "." + key);
  }
  const std::string& text() const {
    if (!value_->is_string()) wrong("a string");
    return value_->get_ref<const std::string&>();
  }
  bool boolean() const {
    if (!value_->is_boolean()) wrong("true or false");
    return value_->get<bool>();
  }
  int64_t integer(int64_t low, int64_t high) const {
    if (!value_->is_number_integer()) wrong("an integer");
    const bool huge = value_->is_number_unsigned() && value_->get<uint64_t>() > static_cast<uint64_t>(high);
    const int64_t number = huge ? 0 : value_->get<int64_t>();
    if (huge || number < low || number > high)
      fail(Status::format, "{}: {} is out of range: {} to {}", where_, value_->dump(), low, high);
    return number;
  }
  std::vector<Field> list() const {
    if (!value_->is_array()) wrong("a list");
    std::vector<Field> items;
    items.reserve(value_->size());
    for (const base::Json& item : *value_)
      items.emplace_back(item, where_ + "[" + std::to_string(items.size()) + "]");
    return items;
  }
  bool boolean_or(const char* key, bool otherwise) const {
    const std::optional<Field> field = find(key);
    return field ? field->boolean() : otherwise;
  }
  std::string text_or(const char* key, std::string_view otherwise) const {
    const std::optional<Field> field = find(key);
    return field ? field->text() : std::string(otherwise);
  }
  const std::string& type() const { return at("type").text(); }
  [[noreturn]] void unknown(std::string_view kind, std::string_view known) const {
    fail(Status::unsupported, "{}: the {} '{}' is not read by this build; known are {}", where_, kind, type(),
         known);
  }

 private:
  [[noreturn]] void wrong(std::string_view wanted) const {
    fail(Status::format, "{}: {} instead of {}", where_, kind_of(*value_), wanted);
  }

  const base::Json* value_;
  std::string where_;
};

// Sequences may hold sequences; a hostile file must not exhaust the stack.
inline constexpr int kMaxNesting = 20;

using Merges = std::vector<std::pair<std::string, std::string>>;

// Vocabulary and merges are read straight into plain lists, since a tree of some 100 000 nodes (and its
// linear look-up of keys) is slow; nesting is limited, so that no walk over it can exhaust the stack.
struct TokenizerJson {
  base::Json rest;                                          // everything but the following
  std::vector<std::pair<std::string, int32_t>> vocabulary;  // model.vocab, an object of tokens and ids
  std::vector<std::pair<std::string, double>> pieces;       // model.vocab, a list of tokens and scores
  Merges merges;                                            // model.merges
  bool has_merges = false;                                  // true also for an empty list
};

// Throws Error(format): "<origin>:<line>:<column>: ..." for text that is not JSON, else naming origin and
// key.
TokenizerJson read_tokenizer_json(std::string_view text, const std::string& origin);
// Returns the type of model of a file that does not name it.
const char* model_type(const TokenizerJson& json);
base::Json read_small_json(std::string_view text, const std::string& origin);

// Reads the score of a Unigram token as serde_json does for `tokenizers`, which rounds twice: the digits that
// fit into 64 bits become a double, which is then multiplied by or divided by a power of ten. For some
// numbers of 17 and more digits the last bit differs from the nearest double's, and it may decide between two
// ways to cut a word. Infinite for a number too large.
double read_score(std::string_view number);

}  // namespace trl::text
