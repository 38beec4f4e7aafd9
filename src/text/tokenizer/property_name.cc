#include <algorithm>
#include <utility>

#include "text/tokenizer/pattern.h"

namespace trl::text {

std::string property_name(std::string_view oniguruma) {
  constexpr std::string_view kCategories[] = {"L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me",
                                              "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi",
                                              "Pf", "Po", "S",  "Sm", "Sc", "Sk", "So", "Z",  "Zs", "Zl",
                                              "Zp", "C",  "Cc", "Cf", "Cn", "Co", "Cs"};
  // Words for properties, each between spaces.
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"L", " letter "},
      {"M", " mark "},
      {"N", " number "},
      {"P", " punctuation "},
      {"S", " symbol "},
      {"Z", " separator "},
      {"C", " other "},
      {"Nd", " digit "},
      {"Alphabetic", " alpha alphabetic "},
      {"White_Space", " space whitespace "},
      {"Uppercase", " upper uppercase "},
      {"Lowercase", " lower lowercase "},
  };
  constexpr std::string_view kScripts[] = {"han",   "hiragana", "katakana", "hangul", "latin",     "cyrillic",
                                           "greek", "arabic",   "hebrew",   "thai",   "devanagari"};
  std::string name;
  for (const char c : oniguruma) {
    if (c == '_' || c == '-' || c == ' ') continue;
    name.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
  }
  for (const std::string_view category : kCategories)
    if (name.size() == category.size() && (name[0] | 0x20) == (category[0] | 0x20) &&
        name.substr(1) == category.substr(1))
      return std::string(category);
  for (const auto& [ours, theirs] : kNames)
    if (theirs.find(" " + name + " ") != std::string_view::npos) return std::string(ours);
  if (std::find(std::begin(kScripts), std::end(kScripts), name) == std::end(kScripts)) return {};
  name[0] = static_cast<char>(name[0] - 'a' + 'A');
  return "sc:" + name;
}

}  // namespace trl::text
