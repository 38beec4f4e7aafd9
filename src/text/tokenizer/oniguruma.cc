// Translates Oniguruma's patterns into PCRE2's. Differences that matter: \s \d \w are Unicode properties,
// [a[b]] is a union, (?m) lets '.' match a newline, ^ and $ always stand at lines, {n,m}+ is not a possessive
// quantifier, \h is a hexadecimal digit.
#include "text/tokenizer/pattern.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"

namespace trl::text {

namespace {
// The characters that properties have gained from Unicode 14, which PCRE2 10.42 knows, to 16, which the
// Oniguruma 6.9.10 of `tokenizers` knows.
constexpr std::string_view kNewLetters =
    "\\x{1C89}-\\x{1C8A}\\x{A7CB}-\\x{A7CD}\\x{A7DA}-\\x{A7DC}\\x{105C0}-\\x{105F3}\\x{10D4A}-\\x{10D65}\\x{"
    "10D6F}-\\x{10D85}\\x{10EC2}-\\x{10EC4}\\x{1123F}-\\x{11240}\\x{11380}-\\x{11389}\\x{1138B}\\x{1138E}\\x{"
    "11390}-\\x{113B5}\\x{113B7}\\x{113D1}\\x{113D3}\\x{11BC0}-\\x{11BE0}\\x{11F02}\\x{11F04}-\\x{11F10}\\x{"
    "11F12}-\\x{11F33}\\x{1342F}\\x{13441}-\\x{13446}\\x{13460}-\\x{143FA}\\x{16100}-\\x{1611D}\\x{16D40}-"
    "\\x{16D6C}\\x{18CFF}\\x{1B132}\\x{1B155}\\x{1DF25}-\\x{1DF2A}\\x{1E030}-\\x{1E06D}\\x{1E4D0}-\\x{1E4EB}"
    "\\x{1E5D0}-\\x{1E5ED}\\x{1E5F0}\\x{2B739}\\x{2EBF0}-\\x{2EE5D}\\x{31350}-\\x{323AF}";
constexpr std::string_view kNewMarks =
    "\\x{897}\\x{CF3}\\x{ECE}\\x{10D69}-\\x{10D6D}\\x{10EFC}-\\x{10EFF}\\x{11241}\\x{113B8}-\\x{113C0}\\x{"
    "113C2}\\x{113C5}\\x{113C7}-\\x{113CA}\\x{113CC}-\\x{113D0}\\x{113D2}\\x{113E1}-\\x{113E2}\\x{11F00}-\\x{"
    "11F01}\\x{11F03}\\x{11F34}-\\x{11F3A}\\x{11F3E}-\\x{11F42}\\x{11F5A}\\x{13440}\\x{13447}-\\x{13455}\\x{"
    "1611E}-\\x{1612F}\\x{1E08F}\\x{1E4EC}-\\x{1E4EF}\\x{1E5EE}-\\x{1E5EF}";
constexpr std::string_view kNewNumbers =
    "\\x{10D40}-\\x{10D49}\\x{116D0}-\\x{116E3}\\x{11BF0}-\\x{11BF9}\\x{11F50}-\\x{11F59}\\x{16130}-\\x{"
    "16139}\\x{16D70}-\\x{16D79}\\x{1CCF0}-\\x{1CCF9}\\x{1D2C0}-\\x{1D2D3}\\x{1E4F0}-\\x{1E4F9}\\x{1E5F1}-"
    "\\x{1E5FA}";

constexpr std::pair<std::string_view, std::string_view> kNewer[] = {
    {"L", kNewLetters},
    {"M", kNewMarks},
    {"N", kNewNumbers},
    {"Lu", "\\x{1C89}\\x{A7CB}-\\x{A7CC}\\x{A7DA}\\x{A7DC}\\x{10D50}-\\x{10D65}"},
    {"Ll", "\\x{1C8A}\\x{A7CD}\\x{A7DB}\\x{10D70}-\\x{10D85}\\x{1DF25}-\\x{1DF2A}"},
    {"Lm", "\\x{10D4E}\\x{10D6F}\\x{16D40}-\\x{16D42}\\x{16D6B}-\\x{16D6C}\\x{1E030}-\\x{1E06D}\\x{1E4EB}"},
    {"Lo",
     "\\x{105C0}-\\x{105F3}\\x{10D4A}-\\x{10D4D}\\x{10D4F}\\x{10EC2}-\\x{10EC4}\\x{1123F}-\\x{11240}\\x{"
     "11380}-\\x{11389}\\x{1138B}\\x{1138E}\\x{11390}-\\x{113B5}\\x{113B7}\\x{113D1}\\x{113D3}\\x{11BC0}-\\x{"
     "11BE0}\\x{11F02}\\x{11F04}-\\x{11F10}\\x{11F12}-\\x{11F33}\\x{1342F}\\x{13441}-\\x{13446}\\x{13460}-"
     "\\x{143FA}\\x{16100}-\\x{1611D}\\x{16D43}-\\x{16D6A}\\x{18CFF}\\x{1B132}\\x{1B155}\\x{1E4D0}-\\x{1E4EA}"
     "\\x{1E5D0}-\\x{1E5ED}\\x{1E5F0}\\x{2B739}\\x{2EBF0}-\\x{2EE5D}\\x{31350}-\\x{323AF}"},
    {"Mn",
     "\\x{897}\\x{ECE}\\x{10D69}-\\x{10D6D}\\x{10EFC}-\\x{10EFF}\\x{11241}\\x{113BB}-\\x{113C0}\\x{113CE}\\x{"
     "113D0}\\x{113D2}\\x{113E1}-\\x{113E2}\\x{11F00}-\\x{11F01}\\x{11F36}-\\x{11F3A}\\x{11F40}\\x{11F42}\\x{"
     "11F5A}\\x{13440}\\x{13447}-\\x{13455}\\x{1611E}-\\x{16129}\\x{1612D}-\\x{1612F}\\x{1E08F}\\x{1E4EC}-"
     "\\x{1E4EF}\\x{1E5EE}-\\x{1E5EF}"},
    {"Mc",
     "\\x{CF3}\\x{113B8}-\\x{113BA}\\x{113C2}\\x{113C5}\\x{113C7}-\\x{113CA}\\x{113CC}-\\x{113CD}\\x{113CF}"
     "\\x{1171E}\\x{11F03}\\x{11F34}-\\x{11F35}\\x{11F3E}-\\x{11F3F}\\x{11F41}\\x{1612A}-\\x{1612C}"},
    {"Nd",
     "\\x{10D40}-\\x{10D49}\\x{116D0}-\\x{116E3}\\x{11BF0}-\\x{11BF9}\\x{11F50}-\\x{11F59}\\x{16130}-\\x{"
     "16139}\\x{16D70}-\\x{16D79}\\x{1CCF0}-\\x{1CCF9}\\x{1E4F0}-\\x{1E4F9}\\x{1E5F1}-\\x{1E5FA}"},
    {"No", "\\x{1D2C0}-\\x{1D2D3}"},
    {"P",
     "\\x{1B4E}-\\x{1B4F}\\x{1B7F}\\x{10D6E}\\x{113D4}-\\x{113D5}\\x{113D7}-\\x{113D8}\\x{11B00}-\\x{11B09}"
     "\\x{11BE1}\\x{11F43}-\\x{11F4F}\\x{16D6D}-\\x{16D6F}\\x{1E5FF}"},
    {"Pd", "\\x{10D6E}"},
    {"Po",
     "\\x{1B4E}-\\x{1B4F}\\x{1B7F}\\x{113D4}-\\x{113D5}\\x{113D7}-\\x{113D8}\\x{11B00}-\\x{11B09}\\x{11BE1}"
     "\\x{11F43}-\\x{11F4F}\\x{16D6D}-\\x{16D6F}\\x{1E5FF}"},
    {"S",
     "\\x{2427}-\\x{2429}\\x{2FFC}-\\x{2FFF}\\x{31E4}-\\x{31E5}\\x{31EF}\\x{10D8E}-\\x{10D8F}\\x{1CC00}-\\x{"
     "1CCEF}\\x{1CD00}-\\x{1CEB3}\\x{1F6DC}\\x{1F774}-\\x{1F776}\\x{1F77B}-\\x{1F77F}\\x{1F7D9}\\x{1F8B2}-"
     "\\x{1F8BB}\\x{1F8C0}-\\x{1F8C1}\\x{1FA75}-\\x{1FA77}\\x{1FA87}-\\x{1FA89}\\x{1FA8F}\\x{1FAAD}-\\x{"
     "1FAAF}\\x{1FABB}-\\x{1FABF}\\x{1FAC6}\\x{1FACE}-\\x{1FACF}\\x{1FADA}-\\x{1FADC}\\x{1FADF}\\x{1FAE8}-"
     "\\x{1FAE9}\\x{1FAF7}-\\x{1FAF8}\\x{1FBCB}-\\x{1FBEF}"},
    {"Sm", "\\x{10D8E}-\\x{10D8F}"},
    {"So",
     "\\x{2427}-\\x{2429}\\x{2FFC}-\\x{2FFF}\\x{31E4}-\\x{31E5}\\x{31EF}\\x{1CC00}-\\x{1CCEF}\\x{1CD00}-\\x{"
     "1CEB3}\\x{1F6DC}\\x{1F774}-\\x{1F776}\\x{1F77B}-\\x{1F77F}\\x{1F7D9}\\x{1F8B2}-\\x{1F8BB}\\x{1F8C0}-"
     "\\x{1F8C1}\\x{1FA75}-\\x{1FA77}\\x{1FA87}-\\x{1FA89}\\x{1FA8F}\\x{1FAAD}-\\x{1FAAF}\\x{1FABB}-\\x{"
     "1FABF}\\x{1FAC6}\\x{1FACE}-\\x{1FACF}\\x{1FADA}-\\x{1FADC}\\x{1FADF}\\x{1FAE8}-\\x{1FAE9}\\x{1FAF7}-"
     "\\x{1FAF8}\\x{1FBCB}-\\x{1FBEF}"},
    {"Cf", "\\x{13439}-\\x{1343F}"},
    {"Alphabetic",
     "\\x{363}-\\x{36F}\\x{897}\\x{C04}\\x{CF3}\\x{F82}-\\x{F83}\\x{1C89}-\\x{1C8A}\\x{1DD3}-\\x{1DE6}\\x{"
     "A7CB}-\\x{A7CD}\\x{A7DA}-\\x{A7DC}\\x{105C0}-\\x{105F3}\\x{10D4A}-\\x{10D65}\\x{10D69}\\x{10D6F}-\\x{"
     "10D85}\\x{10EC2}-\\x{10EC4}\\x{10EFC}\\x{11080}-\\x{11081}\\x{1123F}-\\x{11241}\\x{11380}-\\x{11389}"
     "\\x{1138B}\\x{1138E}\\x{11390}-\\x{113B5}\\x{113B7}-\\x{113C0}\\x{113C2}\\x{113C5}\\x{113C7}-\\x{113CA}"
     "\\x{113CC}-\\x{113CD}\\x{113D1}\\x{113D3}\\x{11BC0}-\\x{11BE0}\\x{11F00}-\\x{11F10}\\x{11F12}-\\x{"
     "11F3A}\\x{11F3E}-\\x{11F40}\\x{1342F}\\x{13441}-\\x{13446}\\x{13460}-\\x{143FA}\\x{16100}-\\x{1612E}"
     "\\x{16D40}-\\x{16D6C}\\x{18CFF}\\x{1B132}\\x{1B155}\\x{1DF25}-\\x{1DF2A}\\x{1E030}-\\x{1E06D}\\x{1E08F}"
     "\\x{1E4D0}-\\x{1E4EB}\\x{1E5D0}-\\x{1E5ED}\\x{1E5F0}\\x{2B739}\\x{2EBF0}-\\x{2EE5D}\\x{31350}-\\x{"
     "323AF}"},
    {"Uppercase", "\\x{1C89}\\x{A7CB}-\\x{A7CC}\\x{A7DA}\\x{A7DC}\\x{10D50}-\\x{10D65}"},
    {"Lowercase",
     "\\x{10FC}\\x{1C8A}\\x{A7CD}\\x{A7DB}\\x{A7F2}-\\x{A7F4}\\x{AB69}\\x{10D70}-\\x{10D85}\\x{1DF25}-\\x{"
     "1DF2A}\\x{1E030}-\\x{1E06D}"},
    {"sc:Han", "\\x{2B739}\\x{2EBF0}-\\x{2EE5D}\\x{31350}-\\x{323AF}"},
    {"sc:Hiragana", "\\x{1B132}"},
    {"sc:Katakana", "\\x{1B155}"},
    {"sc:Latin", "\\x{A7CB}-\\x{A7CD}\\x{A7DA}-\\x{A7DC}\\x{1DF25}-\\x{1DF2A}"},
    {"sc:Cyrillic", "\\x{1C89}-\\x{1C8A}\\x{1E030}-\\x{1E06D}\\x{1E08F}"},
    {"sc:Arabic", "\\x{897}\\x{10EC2}-\\x{10EC4}\\x{10EFC}-\\x{10EFF}"},
    {"sc:Devanagari", "\\x{11B00}-\\x{11B09}"},
};

constexpr std::string_view kWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
// Outside of [...] Oniguruma judges \\w and \\b by a table for Latin-1 that has superscripts and fractions in
// it.
constexpr std::string_view kLatinWord = "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}";
constexpr std::string_view kHex = "0-9A-Fa-f";
constexpr int kDeepestClass = 50;

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
        character_class();
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
  static std::string word(std::string_view more) {
    return fmt::format("{}{}{}{}{}", kWord, newer_characters("Alphabetic"), newer_characters("M"),
                       newer_characters("Nd"), more);
  }
  static std::string with_newer(std::string_view property) {
    return fmt::format("\\p{{{}}}{}", property, newer_characters(property));
  }
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
    const std::string_view newer = newer_characters(ours);
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
        return void(out_ += "\\p{White_Space}");
      case 'S':
        return void(out_ += "\\P{White_Space}");
      case 'd':
        return set(with_newer("Nd"), true);
      case 'D':
        return in_class ? void(out_ += "\\P{Nd}") : set(with_newer("Nd"), false);
      case 'w':
        return set(word(in_class ? "" : kLatinWord), true);
      case 'W':
        return set(word(kLatinWord), false);
      case 'h':
        return set(kHex, true);
      case 'H':
        return set(kHex, false);
      case 'p':
        return property(true, in_class);
      case 'P':
        return property(false, in_class);
      case 'v':
        return void(out_ += "\\x{0B}");
      case 'u':
        return hexadecimal(4);
      case 'b':
        out_ += in_class ? "\\x{08}"
                         : fmt::format("(?:(?<=[{0}])(?![{0}])|(?<![{0}])(?=[{0}]))", word(kLatinWord));
        return;
      case 'x':
        return code();
      default:
        return itself(c, in_class);
    }
  }

  // Reads the code after "\\x".
  void code() {
    if (take('{')) {
      hexadecimal(8);
      if (!take('}')) refuse("\\x{ without }");
    } else if (at_ < pattern_.size() && pattern_[at_] >= '8') {
      refuse("\\x with a byte above 7F");
    } else {
      hexadecimal(2);
    }
  }

  // Copies an escape that PCRE2 reads as Oniguruma does.
  void itself(char c, bool in_class) {
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

  // After '[', up to and with ']'. PCRE2 has no intersection: [a&&b] is an a with a look ahead for b.
  void character_class() {
    const bool negated = take('^');
    std::string before = std::exchange(out_, {});
    std::vector<std::string> parts;
    do {
      if (!parts.empty() && ahead("]")) refuse("an empty side of &&");
      parts.push_back(class_part());
    } while (pattern_[at_ - 1] != ']');
    out_ = std::move(before);
    if (parts.size() == 1) {
      if (negated && parts[0].starts_with("[^")) refuse("a negated class alone in a negated class");
      out_ += (negated ? "[^" : "[") + parts[0].substr(1);
      return;
    }
    std::string all;
    for (size_t i = 1; i < parts.size(); ++i) all += "(?=" + parts[i] + ")";
    all += parts[0];
    out_ += negated ? "(?:(?!" + all + ")\\p{Any})" : "(?:" + all + ")";
  }

  // Reads one side of && as its own class; the '&&' or ']' after it is read.
  std::string class_part() {
    if (ahead("[^")) {
      at_ += 2;
      out_ = "[^";
      class_items(1);
      if (!ahead("&&") && !ahead("]")) refuse("a negated class beside other items");
      at_ += ahead("]") ? 1 : 2;
    } else {
      out_ = "[";
      class_items(0);
    }
    return std::exchange(out_, {}) + "]";
  }

  // After '[' or '[^', up to and with ']', or '&&' in an outermost class.
  void class_items(int depth) {
    if (depth > kDeepestClass) refuse("a character class nested this deep");
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
        if (depth > 0 || out_.size() == 1) refuse("this intersection (&&)");
        at_ += 2;
        return;
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
    if (name == "alnum")
      out_ += with_newer("Alphabetic") + with_newer("Nd");
    else if (name == "word")
      out_ += word("");
    else if (name == "xdigit")
      out_ += kHex;
    else if (name == "alpha" || name == "digit" || name == "space" || name == "upper" || name == "lower")
      out_ += with_newer(property_name(name));
    else
      refuse("this [: :] class");
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
    if (low_end == at_ + 1)
      out_ += "{0" + std::string(pattern_.substr(low_end, end + 1 - low_end));
    else
      out_ += pattern_.substr(at_, end + 1 - at_);
    at_ = end + 1;
    if (ahead("+") || (ahead("?") && !comma)) refuse("a quantifier after {n}");
  }

  static constexpr std::string_view kHexDigits = "0123456789abcdefABCDEF";
  std::string_view pattern_;
  size_t at_ = 0;
  std::string out_;
};
}  // namespace

std::string_view newer_characters(std::string_view property) {
  for (const auto& [name, characters] : kNewer)
    if (name == property) return characters;
  return {};
}

std::string pcre_from_oniguruma(std::string_view pattern) { return Translator(pattern).run(); }

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
