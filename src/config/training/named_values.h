// Entries of one option (lr_scheduler_kwargs, optim_args), read by name: each with a type and a range, and at
// the end an error for entries that nothing asked for.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text/nearest.h"
#include "base/text/number.h"
#include "config/table/option_value.h"

namespace trl::config {

class NamedValues {
 public:
  // owner: the owner of the entries, for messages: "lr_scheduler_type cosine".
  NamedValues(std::string_view key, std::string owner,
              std::vector<std::pair<std::string, std::string>> values)
      : key_(key), owner_(std::move(owner)), values_(std::move(values)) {}

  // If an entry is not given, out (a double, or optional) is unchanged. range: as in the option table.
  void number(std::string_view name, std::string_view range, auto& out) {
    const std::string* const text = ask(name);
    if (text == nullptr) return;
    const std::optional<double> value = base::parse_double(*text);
    if (!value || !std::isfinite(*value) || !in_range(range, *value))
      refuse(name, *text, ranged("a number", range));
    out = *value;
  }
  void integer(std::string_view name, std::string_view range, auto& out) {  // an int64_t, or optional
    const std::string* const text = ask(name);
    if (text == nullptr) return;
    const std::optional<double> value = base::parse_double(*text);
    constexpr double kExact = 9007199254740992.0;  // 2^53
    if (!value || std::trunc(*value) != *value || std::abs(*value) > kExact || !in_range(range, *value))
      refuse(name, *text, ranged("an integer", range));
    out = static_cast<int64_t>(*value);
  }
  void flag(std::string_view name, bool& out) {
    const std::string* const text = ask(name);
    if (text == nullptr) return;
    const std::optional<bool> value = parse_bool(*text);
    if (!value) refuse(name, *text, "true or false");
    out = *value;
  }
  // Returns the index of one of the words.
  std::optional<size_t> word(std::string_view name, const std::vector<std::string_view>& words) {
    const std::string* const text = ask(name);
    if (text == nullptr) return std::nullopt;
    const auto found = std::ranges::find(words, *text);
    if (found == words.end()) refuse(name, *text, "one of " + base::join(words));
    return static_cast<size_t>(found - words.begin());
  }
  bool given(std::string_view name) const {
    return std::ranges::any_of(
        values_, [&](const auto& entry) { return entry.first == name && entry.second != "null"; });
  }
  void finish() const {  // Error(invalid_config) for an entry that was not asked for
    for (const auto& [name, value] : values_) {
      if (std::ranges::find(asked_, name) != asked_.end()) continue;
      fail_key(key_, "{}: {} is not an argument of {}; accepted: {}", key_, shown(name), owner_,
               asked_.empty() ? "none" : base::join(asked_));
    }
  }

 private:
  const std::string* ask(std::string_view name) {  // null: not given, or null
    asked_.push_back(name);
    for (const auto& [entry, value] : values_)
      if (entry == name && value != "null" && value != "None") return &value;
    return nullptr;
  }
  [[noreturn]] void refuse(std::string_view name, std::string_view value, const std::string& accepted) const {
    fail_key(key_, "{}: {}: {} is not accepted; give {}", key_, name, shown(value), accepted);
  }

  std::string_view key_;
  std::string owner_;
  std::vector<std::pair<std::string, std::string>> values_;
  std::vector<std::string_view> asked_;
};

}  // namespace trl::config
