// Translates classes of characters.
#include <utility>
#include <vector>

#include "text/tokenizer/oniguruma.h"
#include "text/tokenizer/pattern.h"

namespace trl::text {

namespace {

constexpr int kDeepestClass = 50;

}  // namespace

void OnigurumaTranslator::character_class() {
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

std::string OnigurumaTranslator::class_part() {
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

void OnigurumaTranslator::class_items(int depth) {
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

void OnigurumaTranslator::posix() {
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

}  // namespace trl::text
