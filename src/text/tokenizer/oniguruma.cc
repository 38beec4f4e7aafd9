#include "text/tokenizer/oniguruma.h"

#include <utility>

#include "base/error.h"
#include "text/tokenizer/pattern.h"

namespace trl::text {

std::string OnigurumaTranslator::run() {
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

void OnigurumaTranslator::refuse(std::string_view what) const {
  fail(Status::unsupported, "the pattern '{}': {} at byte {} is not read by this build", pattern_, what, at_);
}

void OnigurumaTranslator::group() {
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

void OnigurumaTranslator::interval() {
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

std::string pcre_from_oniguruma(std::string_view pattern) { return OnigurumaTranslator(pattern).run(); }

}  // namespace trl::text
