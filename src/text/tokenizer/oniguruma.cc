// Differences that matter: \s \d \w are Unicode properties, [a[b]] is a union, (?m) lets '.' match a newline,
// ^ and $ always stand at lines, {n,m}+ is no possessive quantifier, \h is a hexadecimal digit.
#include "text/tokenizer/oniguruma.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace trl::text {

namespace {
constexpr std::string_view kWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
// Outside of [...] Oniguruma judges \\w and \\b by a table for Latin-1 that has superscripts and fractions in
// it.
constexpr std::string_view kLatinWord = "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}";
constexpr std::string_view kHex = "0-9A-Fa-f";
constexpr int kMaxDepth = 50;

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

// What PCRE2 calls a property that Oniguruma knows by several names; empty: not read.
std::string property_name(std::string_view given) {
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
  for (const char c : given) {
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

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  std::string run() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      if (c == '\\') {
        escape(false);
      } else if (c == '[') {
        ++at_;
        const bool negated = take('^');
        out_ += negated ? "[^" : "[";
        class_items(0);
        out_ += ']';
      } else if (c == '(') {
        group();
      } else if (c == '{') {
        interval();
      } else {
        out_ += c;
        ++at_;
      }
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    fail(Status::unsupported, "the pattern '{}': {} at byte {} is not read by this build", pattern_, what,
         at_);
  }
  static std::string word() { return fmt::format("{}{}", kWord, kLatinWord); }
  bool take(char c) {
    if (at_ >= pattern_.size() || pattern_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool ahead(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }

  void property(bool positive, bool in_class) {
    const size_t close = pattern_.find('}', at_);
    if (!ahead("{") || close == std::string_view::npos) refuse("\\p without a name in braces");
    std::string_view name = pattern_.substr(at_ + 1, close - at_ - 1);
    if (name.starts_with('^')) {
      positive = !positive;
      name.remove_prefix(1);
    }
    const std::string ours = property_name(name);
    if (ours.empty()) refuse(fmt::format("the property '{}'", name));
    at_ = close + 1;
    const std::string_view newer = ours == "L"   ? kNewLetters
                                   : ours == "M" ? kNewMarks
                                   : ours == "N" ? kNewNumbers
                                                 : "";
    if (!newer.empty() && (positive || !in_class)) {
      out_ += in_class ? fmt::format("\\p{{{}}}{}", ours, newer)
                       : fmt::format("[{}\\p{{{}}}{}]", positive ? "" : "^", ours, newer);
    } else {
      out_ += fmt::format("\\{}{{{}}}", positive ? 'p' : 'P', ours);
    }
  }

  void hexadecimal(size_t most) {
    size_t end = at_;
    while (end < pattern_.size() && end - at_ < most &&
           kHexDigits.find(pattern_[end]) != std::string_view::npos)
      ++end;
    if (end == at_) refuse("a character code without digits");
    out_ += fmt::format("\\x{{{}}}", pattern_.substr(at_, end - at_));
    at_ = end;
  }

  void escape(bool in_class) {
    if (at_ + 1 >= pattern_.size()) refuse("a lone backslash");
    const char c = pattern_[at_ + 1];
    at_ += 2;
    const auto set = [&](std::string_view items, bool positive) {
      if (in_class && !positive) refuse(fmt::format("\\{} inside [...]", c));
      out_ += in_class ? std::string(items) : fmt::format("[{}{}]", positive ? "" : "^", items);
    };
    switch (c) {
      case 's':
        out_ += "\\p{White_Space}";
        return;
      case 'S':
        out_ += "\\P{White_Space}";
        return;
      case 'd':
        out_ += "\\p{Nd}";
        return;
      case 'D':
        out_ += "\\P{Nd}";
        return;
      case 'w':
        return set(in_class ? std::string(kWord) : word(), true);
      case 'W':
        return set(word(), false);
      case 'h':
        return set(kHex, true);
      case 'H':
        return set(kHex, false);
      case 'p':
        return property(true, in_class);
      case 'P':
        return property(false, in_class);
      case 'v':
        out_ += "\\x{0B}";
        return;
      case 'u':
        return hexadecimal(4);
      case 'b':
        out_ += in_class ? "\\x{08}" : fmt::format("(?:(?<=[{0}])(?![{0}])|(?<![{0}])(?=[{0}]))", word());
        return;
      case 'x':
        if (take('{')) {
          hexadecimal(8);
          if (!take('}')) refuse("\\x{ without }");
        } else if (at_ < pattern_.size() && pattern_[at_] >= '8') {
          refuse("\\x with a byte above 7F");
        } else {
          hexadecimal(2);
        }
        return;
      default:
        break;
    }
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    const std::string_view known = in_class ? "tnrfae" : "tnrfaeAzZ";
    if (letter && known.find(c) == std::string_view::npos) refuse(fmt::format("\\{}", c));
    if (!letter && static_cast<unsigned char>(c) >= 0x80) {
      out_ += c;  // the first byte of a character that needs no backslash
    } else {
      out_ += '\\';
      out_ += c;
    }
  }

  // After '[' or '[^', up to and with ']'.
  void class_items(int depth) {
    if (depth > kMaxDepth) refuse("a character class nested this deep");
    bool first = true;
    while (true) {
      if (at_ >= pattern_.size()) refuse("'[' without ']'");
      const char c = pattern_[at_];
      if (c == ']' && !first) {
        ++at_;
        return;
      }
      first = false;
      if (c == '\\') {
        escape(true);
      } else if (ahead("[:")) {
        posix();
      } else if (c == '[') {
        ++at_;
        if (take('^')) refuse("a negated class inside a class");
        class_items(depth + 1);
      } else if (ahead("&&")) {
        refuse("an intersection (&&)");
      } else {
        if (c == ']' || c == '^') out_ += '\\';
        out_ += c;
        ++at_;
      }
    }
  }

  void posix() {
    const size_t close = pattern_.find(":]", at_);
    const std::string_view name =
        close == std::string_view::npos ? std::string_view() : pattern_.substr(at_ + 2, close - at_ - 2);
    if (name == "alnum") {
      out_ += "\\p{Alphabetic}\\p{Nd}";
    } else if (name == "word") {
      out_ += kWord;
    } else if (name == "xdigit") {
      out_ += kHex;
    } else if (name == "alpha" || name == "digit" || name == "space" || name == "upper" || name == "lower") {
      out_ += fmt::format("\\p{{{}}}", property_name(name));
    } else {
      refuse("this [: :] class");
    }
    at_ = close + 2;
  }

  void group() {
    const size_t start = at_;
    ++at_;
    out_ += '(';
    if (!take('?')) return;
    out_ += '?';
    for (const std::string_view kind : {":", "=", "!", ">", "<=", "<!"}) {
      if (!ahead(kind)) continue;
      out_ += kind;
      at_ += kind.size();
      return;
    }
    bool any = false;
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      if (c == ':' || c == ')') break;
      if (c != 'i' && c != 'm' && c != '-') refuse("this kind of group");
      out_ += c == 'm' ? 's' : c;
      any = true;
      ++at_;
    }
    if (!any || at_ >= pattern_.size()) refuse("this kind of group");
    if (pattern_[at_] == ')' && start != 0) refuse("an option that is not at the beginning");
    out_ += pattern_[at_++];
  }

  void interval() {
    const auto digits = [&](size_t from) {
      size_t end = from;
      while (end < pattern_.size() && pattern_[end] >= '0' && pattern_[end] <= '9') ++end;
      return end;
    };
    const size_t low_end = digits(at_ + 1);
    size_t end = low_end;
    const bool comma = end < pattern_.size() && pattern_[end] == ',';
    if (comma) end = digits(end + 1);
    const bool some = end > at_ + 1 + (comma ? 1 : 0);
    if (!some || end >= pattern_.size() || pattern_[end] != '}') {
      out_ += "\\{";  // a plain brace
      ++at_;
      return;
    }
    if (low_end == at_ + 1) {
      out_ += "{0" + std::string(pattern_.substr(low_end, end + 1 - low_end));
    } else {
      out_ += pattern_.substr(at_, end + 1 - at_);
    }
    at_ = end + 1;
    if (ahead("+") || (ahead("?") && !comma)) refuse("a quantifier behind {n}");
  }

  static constexpr std::string_view kHexDigits = "0123456789abcdefABCDEF";
  std::string_view pattern_;
  size_t at_ = 0;
  std::string out_;
};
}  // namespace

std::string pcre_from_oniguruma(std::string_view pattern) { return Translator(pattern).run(); }

}  // namespace trl::text
