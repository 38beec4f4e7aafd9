// A value of a JSON file together with its position in it, so that every error names file and key.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json/json.h"

namespace trl::text {

// Returns "a number", "an object" ...
inline std::string kind_of(const base::Json& value) {
  if (value.is_null()) return "null";
  return (value.is_object() ? "an " : "a ") + base::json_type(value);
}

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

}  // namespace trl::text
