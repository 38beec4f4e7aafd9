// The characters of a pattern, read from the first to the last, and errors that name a place among them.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace trl::text {

class PatternText {
 public:
  // key: names the pattern in messages. Throws Error(invalid_config) if the pattern is too long or not UTF-8.
  PatternText(std::string_view pattern, std::string_view key);

  std::u32string_view characters() const { return characters_; }
  std::u32string_view rest() const { return characters().substr(place_); }
  size_t place() const { return place_; }  // of the next character
  void go_to(size_t place) { place_ = place; }
  bool is_done() const { return place_ == characters_.size(); }

  char32_t next() const { return is_done() ? 0 : characters_[place_]; }
  bool is_next(char32_t c) const { return !is_done() && characters_[place_] == c; }
  char32_t read() { return characters_[place_++]; }  // not if it is done
  bool take(char32_t c);                             // if it is next
  bool take(std::u32string_view word);

  [[noreturn]] void refuse(std::string_view why, size_t place) const;

 private:
  std::string_view pattern_, key_;
  std::u32string characters_;
  size_t place_ = 0;
};

inline bool is_ascii_digit(char32_t c) { return c >= '0' && c <= '9'; }
inline bool is_ascii_letter(char32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

}  // namespace trl::text
