#include "text/tokenizer/character_property.h"

#include <utility>

namespace trl::text {

std::string property_name(std::string_view oniguruma) {
  constexpr std::string_view kCategories[] = {"L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me",
                                              "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi",
                                              "Pf", "Po", "S",  "Sm", "Sc", "Sk", "So", "Z",  "Zs", "Zl",
                                              "Zp", "C",  "Cc", "Cf", "Cn", "Co", "Cs"};
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {{"letter", "L"},
                                                                      {"mark", "M"},
                                                                      {"number", "N"},
                                                                      {"punctuation", "P"},
                                                                      {"symbol", "S"},
                                                                      {"separator", "Z"},
                                                                      {"other", "C"},
                                                                      {"digit", "Nd"},
                                                                      {"alpha", "Alphabetic"},
                                                                      {"alphabetic", "Alphabetic"},
                                                                      {"space", "White_Space"},
                                                                      {"whitespace", "White_Space"},
                                                                      {"upper", "Uppercase"},
                                                                      {"uppercase", "Uppercase"},
                                                                      {"lower", "Lowercase"},
                                                                      {"lowercase", "Lowercase"},
                                                                      {"han", "sc:Han"},
                                                                      {"hiragana", "sc:Hiragana"},
                                                                      {"katakana", "sc:Katakana"},
                                                                      {"hangul", "sc:Hangul"},
                                                                      {"latin", "sc:Latin"},
                                                                      {"cyrillic", "sc:Cyrillic"},
                                                                      {"greek", "sc:Greek"},
                                                                      {"arabic", "sc:Arabic"},
                                                                      {"hebrew", "sc:Hebrew"},
                                                                      {"thai", "sc:Thai"},
                                                                      {"devanagari", "sc:Devanagari"}};
  std::string name;
  for (const char c : oniguruma) {
    if (c == '_' || c == '-' || c == ' ') continue;
    name.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
  }
  for (const std::string_view category : kCategories) {
    if (name.size() == category.size() && (name[0] | 0x20) == (category[0] | 0x20) &&
        name.substr(1) == category.substr(1))
      return std::string(category);
  }
  for (const auto& [theirs, ours] : kNames) {
    if (name == theirs) return std::string(ours);
  }
  return {};
}

}  // namespace trl::text
