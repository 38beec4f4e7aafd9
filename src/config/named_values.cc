#include "config/named_values.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text/nearest.h"
#include "base/text/number.h"
#include "config/option_value.h"

namespace trl::config {

namespace {

std::string accepted_number(std::string_view kind, std::string_view range) {
  if (range.empty()) return std::string(kind);
  const bool interval = range.front() == '[' || range.front() == '(';
  return fmt::format("{}{} {}", kind, interval ? " in" : "", range);
}

}  // namespace

bool NamedValues::given(std::string_view name) const {
  return std::any_of(values_.begin(), values_.end(),
                     [&](const auto& entry) { return entry.first == name && entry.second != "null"; });
}

const std::string* NamedValues::ask(std::string_view name) {
  asked_.push_back(name);
  for (const auto& [entry, value] : values_) {
    if (entry == name && value != "null" && value != "None") return &value;
  }
  return nullptr;
}

void NamedValues::refuse(std::string_view name, std::string_view value, const std::string& accepted) const {
  fail_key(key_, "{}: {}: {} is not accepted; give {}", key_, name, shown(value), accepted);
}

void NamedValues::number(std::string_view name, std::string_view range, std::optional<double>& out) {
  const std::string* const text = ask(name);
  if (text == nullptr) return;
  const std::optional<double> value = base::parse_double(*text);
  if (!value || !std::isfinite(*value) || (!range.empty() && !in_range(range, *value))) {
    refuse(name, *text, accepted_number("a number", range));
  }
  out = value;
}

void NamedValues::number(std::string_view name, std::string_view range, double& out) {
  std::optional<double> value;
  number(name, range, value);
  out = value.value_or(out);
}

void NamedValues::integer(std::string_view name, std::string_view range, std::optional<int64_t>& out) {
  const std::string* const text = ask(name);
  if (text == nullptr) return;
  const std::optional<double> value = base::parse_double(*text);
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (!value || std::trunc(*value) != *value || std::abs(*value) > kExact || !in_range(range, *value)) {
    refuse(name, *text, accepted_number("an integer", range));
  }
  out = static_cast<int64_t>(*value);
}

void NamedValues::integer(std::string_view name, std::string_view range, int64_t& out) {
  std::optional<int64_t> value;
  integer(name, range, value);
  out = value.value_or(out);
}

void NamedValues::flag(std::string_view name, bool& out) {
  const std::string* const text = ask(name);
  if (text == nullptr) return;
  const std::optional<bool> value = parse_bool(*text);
  if (!value) refuse(name, *text, "true or false");
  out = *value;
}

std::optional<size_t> NamedValues::word(std::string_view name, const std::vector<std::string_view>& words) {
  const std::string* const text = ask(name);
  if (text == nullptr) return std::nullopt;
  const auto found = std::find(words.begin(), words.end(), *text);
  if (found == words.end()) refuse(name, *text, "one of " + base::join(words));
  return static_cast<size_t>(found - words.begin());
}

void NamedValues::finish() const {
  for (const auto& [name, value] : values_) {
    if (std::find(asked_.begin(), asked_.end(), name) != asked_.end()) continue;
    fail_key(key_, "{}: {} is not an argument of {}; accepted: {}", key_, shown(name), owner_,
             asked_.empty() ? "none" : base::join(asked_));
  }
}

}  // namespace trl::config
