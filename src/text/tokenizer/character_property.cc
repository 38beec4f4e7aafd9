#include "text/tokenizer/character_property.h"

#include <utility>

namespace trl::text {

namespace {
// Characters of Unicode 15 and 16, which Oniguruma 6.9.10 knows and PCRE2 10.42 (Unicode 14) does not.
constexpr std::string_view kNewLetters =
    "\\x{1C89}-\\x{1C8A}\\x{A7CB}-\\x{A7CD}\\x{A7DA}-\\x{A7DC}\\x{105C0}-\\x{105F3}"
    "\\x{10D4A}-\\x{10D65}\\x{10D6F}-\\x{10D85}\\x{10EC2}-\\x{10EC4}\\x{1123F}-\\x{11240}"
    "\\x{11380}-\\x{11389}\\x{1138B}\\x{1138E}\\x{11390}-\\x{113B5}\\x{113B7}\\x{113D1}\\x{113D3}"
    "\\x{11BC0}-\\x{11BE0}\\x{11F02}\\x{11F04}-\\x{11F10}\\x{11F12}-\\x{11F33}\\x{1342F}"
    "\\x{13441}-\\x{13446}\\x{13460}-\\x{143FA}\\x{16100}-\\x{1611D}\\x{16D40}-\\x{16D6C}\\x{18CFF}"
    "\\x{1B132}\\x{1B155}\\x{1DF25}-\\x{1DF2A}\\x{1E030}-\\x{1E06D}\\x{1E4D0}-\\x{1E4EB}"
    "\\x{1E5D0}-\\x{1E5ED}\\x{1E5F0}\\x{2B739}\\x{2EBF0}-\\x{2EE5D}\\x{31350}-\\x{323AF}";
constexpr std::string_view kNewMarks =
    "\\x{897}\\x{CF3}\\x{ECE}\\x{10D69}-\\x{10D6D}\\x{10EFC}-\\x{10EFF}\\x{11241}"
    "\\x{113B8}-\\x{113C0}\\x{113C2}\\x{113C5}\\x{113C7}-\\x{113CA}\\x{113CC}-\\x{113D0}\\x{113D2}"
    "\\x{113E1}-\\x{113E2}\\x{11F00}-\\x{11F01}\\x{11F03}\\x{11F34}-\\x{11F3A}\\x{11F3E}-\\x{11F42}"
    "\\x{11F5A}\\x{13440}\\x{13447}-\\x{13455}\\x{1611E}-\\x{1612F}\\x{1E08F}\\x{1E4EC}-\\x{1E4EF}"
    "\\x{1E5EE}-\\x{1E5EF}";
constexpr std::string_view kNewNumbers =
    "\\x{10D40}-\\x{10D49}\\x{116D0}-\\x{116E3}\\x{11BF0}-\\x{11BF9}\\x{11F50}-\\x{11F59}"
    "\\x{16130}-\\x{16139}\\x{16D70}-\\x{16D79}\\x{1CCF0}-\\x{1CCF9}\\x{1D2C0}-\\x{1D2D3}"
    "\\x{1E4F0}-\\x{1E4F9}\\x{1E5F1}-\\x{1E5FA}";

}  // namespace

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

std::string_view newer_characters(std::string_view property) {
  if (property == "L") return kNewLetters;
  if (property == "M") return kNewMarks;
  return property == "N" ? kNewNumbers : "";
}

}  // namespace trl::text
