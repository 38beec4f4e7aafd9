// Numbers between bounds as patterns.
#pragma once
#include <optional>
#include <string>

#include "base/json/json.h"
#include "text/constraint/pattern_tree.h"

namespace trl::text {

// The digits before and behind the point, without zeros that change nothing. open: the number itself is not
// within the bound.
struct JsonBound {
  bool negative = false;
  std::string whole = "0", fraction = "";
  bool open = false;
  bool is_zero() const { return whole == "0" && fraction.empty(); }
};

// nullopt: it is not a number, or one that needs an exponent.
std::optional<JsonBound> json_bound(const base::Json& value, bool open);

// Numbers from `least` to `most`, written without an exponent; nullopt: no bound. No text matches if there is
// no such number.
PatternTree json_number_between(const std::optional<JsonBound>& least, const std::optional<JsonBound>& most);
PatternTree json_integer_between(const std::optional<JsonBound>& least, const std::optional<JsonBound>& most);

}  // namespace trl::text
