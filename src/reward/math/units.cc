#include <algorithm>
#include <array>

#include "reward/math/characters.h"
#include "reward/math/clean.h"

namespace trl::reward::math {

namespace {

// Units and counted things after a number, in the singular. Letters that are common variables (t, c, d) are
// left out.
constexpr auto kUnits = std::to_array<std::string_view>(
    {"acre",   "am",      "apple",   "cc",   "cent",   "cm",   "coin",    "cu",    "cube",  "cubic",  "day",
     "deg",    "degree",  "digit",   "dm",   "edge",   "feet", "ft",      "g",     "gal",   "gallon", "gm",
     "h",      "hectare", "hour",    "hr",   "inch",   "kg",   "km",      "kmh",   "kmph",  "l",      "lb",
     "liter",  "litre",   "m",       "man",  "mark",   "men",  "meal",    "meter", "metre", "mile",   "min",
     "minute", "mm",      "month",   "mph",  "ohm",    "pm",   "pound",   "rd",    "rs",    "rupee",  "s",
     "sec",    "second",  "soldier", "sq",   "square", "st",   "student", "th",    "tile",  "toy",    "unit",
     "woman",  "women",   "yard",    "year", "yr"});

bool is_unit(std::string_view word) {
  const auto known = [](std::string_view name) { return std::ranges::find(kUnits, name) != kUnits.end(); };
  if (known(word)) return true;
  if (word.ends_with('s') && known(word.substr(0, word.size() - 1))) return true;
  return word.ends_with("es") && known(word.substr(0, word.size() - 2));
}

std::string_view without_last_text(std::string_view latex) {
  const size_t begin = std::min(latex.find("\\text{"), latex.find("\\mbox{"));
  if (begin == std::string_view::npos) return latex;
  std::string_view end = latex;
  if (end.size() > 2 && end[end.size() - 2] == '^' && is_digit(end.back())) end.remove_suffix(2);  // ^2
  if (end.size() <= begin || !end.ends_with('}')) return latex;
  const std::string_view before = trimmed(latex.substr(0, begin));
  return before.empty() ? latex : before;
}

std::string_view without_last_word(std::string_view latex) {
  size_t begin = latex.size();
  while (begin > 0 && is_letter(latex[begin - 1])) --begin;
  if (begin == 0 || begin == latex.size() || !is_unit(latex.substr(begin))) return latex;
  const char before = latex[begin - 1];
  if (!is_digit(before) && before != '}' && !is_space(before)) return latex;
  return trimmed(latex.substr(0, begin));
}

}  // namespace

std::string_view without_units(std::string_view latex) {
  latex = without_last_text(latex);
  return without_last_word(without_last_word(latex));
}

}  // namespace trl::reward::math
