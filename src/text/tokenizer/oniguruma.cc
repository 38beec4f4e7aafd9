// Differences that matter: \s \d \w are Unicode properties, [a[b]] is a union, (?m) lets '.' match a newline,
// ^ and $ always stand at lines, {n,m}+ is not a possessive quantifier, \h is a hexadecimal digit.
#include "text/tokenizer/oniguruma.h"

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/tokenizer/character_property.h"

namespace trl::text {

namespace {
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
        out_ += "\\p{White_Space}";
        return;
      case 'S':
        out_ += "\\P{White_Space}";
        return;
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
        out_ += "\\x{0B}";
        return;
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
    if (name == "alnum") {
      out_ += with_newer("Alphabetic") + with_newer("Nd");
    } else if (name == "word") {
      out_ += word("");
    } else if (name == "xdigit") {
      out_ += kHex;
    } else if (name == "alpha" || name == "digit" || name == "space" || name == "upper" || name == "lower") {
      out_ += with_newer(property_name(name));
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
    if (ahead("+") || (ahead("?") && !comma)) refuse("a quantifier after {n}");
  }

  static constexpr std::string_view kHexDigits = "0123456789abcdefABCDEF";
  std::string_view pattern_;
  size_t at_ = 0;
  std::string out_;
};
}  // namespace

std::string pcre_from_oniguruma(std::string_view pattern) { return Translator(pattern).run(); }

}  // namespace trl::text
