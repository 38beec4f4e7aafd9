// Translates Oniguruma's patterns into PCRE2's. Differences that matter: \s \d \w are Unicode properties,
// [a[b]] is a union, (?m) lets '.' match a newline, ^ and $ always stand at lines, {n,m}+ is not a possessive
// quantifier, \h is a hexadecimal digit.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace trl::text {

class OnigurumaTranslator {
 public:
  explicit OnigurumaTranslator(std::string_view pattern) : pattern_(pattern) {}

  std::string run();

 private:
  [[noreturn]] void refuse(std::string_view what) const;
  bool take(char c) {
    if (at_ >= pattern_.size() || pattern_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool ahead(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }

  void escape(bool in_class);
  void property(bool positive, bool in_class);
  void hexadecimal(size_t most);
  // Reads the code after "\\x".
  void code();
  // Copies an escape that PCRE2 reads as Oniguruma does.
  void itself(char c, bool in_class);

  // After '[', up to and with ']'. PCRE2 has no intersection: [a&&b] is an a with a look ahead for b.
  void character_class();
  // Reads one side of && as its own class; the '&&' or ']' after it is read.
  std::string class_part();
  // After '[' or '[^', up to and with ']', or '&&' in an outermost class.
  void class_items(int depth);
  void posix();

  void group();
  void interval();

  static std::string word(std::string_view more);
  static std::string with_newer(std::string_view property);
  static constexpr std::string_view kHex = "0-9A-Fa-f";

  std::string_view pattern_;
  size_t at_ = 0;
  std::string out_;
};

}  // namespace trl::text
