// Translates what begins with a backslash: properties, character codes, classes of a letter, single
// characters.
#include "text/tokenizer/oniguruma.h"
#include "text/tokenizer/pattern.h"

namespace trl::text {

namespace {

// Outside of [...] Oniguruma judges \\w and \\b by a table for Latin-1 that has superscripts and fractions in
// it.
constexpr std::string_view kLatinWord = "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}";

constexpr std::string_view kWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
constexpr std::string_view kHexDigits = "0123456789abcdefABCDEF";

}  // namespace

std::string OnigurumaTranslator::word(std::string_view more) {
  return fmt::format("{}{}{}{}{}", kWord, newer_characters("Alphabetic"), newer_characters("M"),
                     newer_characters("Nd"), more);
}

std::string OnigurumaTranslator::with_newer(std::string_view property) {
  return fmt::format("\\p{{{}}}{}", property, newer_characters(property));
}

void OnigurumaTranslator::property(bool positive, bool in_class) {
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

void OnigurumaTranslator::hexadecimal(size_t most) {
  size_t end = at_;
  while (end < pattern_.size() && end - at_ < most &&
         kHexDigits.find(pattern_[end]) != std::string_view::npos)
    ++end;
  if (end == at_) refuse("a character code without digits");
  out_ += fmt::format("\\x{{{}}}", pattern_.substr(at_, end - at_));
  at_ = end;
}

void OnigurumaTranslator::escape(bool in_class) {
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
      out_ +=
          in_class ? "\\x{08}" : fmt::format("(?:(?<=[{0}])(?![{0}])|(?<![{0}])(?=[{0}]))", word(kLatinWord));
      return;
    case 'x':
      return code();
    default:
      return itself(c, in_class);
  }
}

void OnigurumaTranslator::code() {
  if (take('{')) {
    hexadecimal(8);
    if (!take('}')) refuse("\\x{ without }");
  } else if (at_ < pattern_.size() && pattern_[at_] >= '8') {
    refuse("\\x with a byte above 7F");
  } else {
    hexadecimal(2);
  }
}

void OnigurumaTranslator::itself(char c, bool in_class) {
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

}  // namespace trl::text
