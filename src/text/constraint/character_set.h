// Sets of Unicode characters, and the classes that patterns name.
#pragma once
#include <string_view>
#include <utility>
#include <vector>

namespace trl::text {

// Ranges that neither overlap nor touch, ascending. Surrogates may be in them: no text has any.
class CharacterSet {
 public:
  struct Range {
    char32_t first, last;
    bool operator==(const Range&) const = default;
    auto operator<=>(const Range&) const = default;
  };
  static constexpr char32_t kLast = 0x10FFFF;

  CharacterSet() = default;
  CharacterSet(char32_t first, char32_t last) { add(first, last); }
  explicit CharacterSet(std::vector<Range> ranges) : ranges_(std::move(ranges)) { join(); }  // in any order
  void add(char32_t first, char32_t last);
  void add(const CharacterSet& other);
  CharacterSet complement() const;
  CharacterSet without(const CharacterSet& other) const;
  bool contains(char32_t c) const;
  bool empty() const { return ranges_.empty(); }
  const std::vector<Range>& ranges() const { return ranges_; }
  auto operator<=>(const CharacterSet&) const = default;

 private:
  void join();
  std::vector<Range> ranges_;
};

// Returns the characters of \w, \d, \s and their complements \W, \D, \S in Unicode, as in Python's module
// regex: its re has no marks and ties among \w, and the separators U+001C to U+001F among \s.
const CharacterSet& named_class(char name);

// Returns the characters that such a class has in all dialects and versions of Unicode, of ECMAScript and of
// Python; some: in any of them.
const CharacterSet& common_class(char name, bool some);

// Returns the characters of a general category of Unicode, as Lu, or of a group of these, as L; null: there
// is none of this name.
const CharacterSet* category_class(std::string_view name);

// Adds the characters that differ from those of the set only by their case, as Python's IGNORECASE.
CharacterSet with_both_cases(const CharacterSet& set);

}  // namespace trl::text
