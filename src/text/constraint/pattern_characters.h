// Characters of a pattern as sets: single ones, escapes, and classes such as [a-z] and \w.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "text/constraint/pattern_text.h"
#include "text/constraint/pattern_tree.h"

namespace trl::text {

// Reads one set at a time from a text, whose place is behind the character that begins it.
class PatternCharacters {
 public:
  struct Flags {
    bool ignore_case = false, dot_all = false;
  };

  // common: what matches does so in every dialect of common_class().
  PatternCharacters(PatternText& text, bool common) : text_(text), common_(common) {}

  Flags flags;  // for the sets that are read next

  PatternTree dot();
  PatternTree one(char32_t c);
  PatternTree bracketed(size_t begin);  // "["
  PatternTree escape(size_t begin);     // "\"

 private:
  template <class Body>
  PatternTree known(size_t begin, size_t end, const Body& body);
  void charge(size_t ranges, size_t place);
  CharacterSet both_cases(const CharacterSet& set, size_t begin);
  CharacterSet members(size_t begin);
  CharacterSet member(bool& is_class);
  CharacterSet escaped(size_t begin);
  CharacterSet category(size_t begin, bool others);
  char32_t hexadecimal(size_t digits, size_t begin);
  char32_t octal(size_t begin);
  CharacterSet line_ends() const;
  size_t end_of_class() const;
  size_t end_of_brackets(size_t begin) const;

  PatternText& text_;
  bool common_;
  bool excludes_ = false;  // within a class of others, [^...]
  // Sets by their text and flags: a long pattern repeats a few.
  std::map<std::tuple<std::u32string, bool, bool>, std::shared_ptr<const CharacterSet>> sets_;
  size_t ranges_ = 0;
};

}  // namespace trl::text
