// Mathematics within prose: $...$, $$...$$, \[...\], \(...\), [...] between spaces, and fractions of numbers.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "reward/math/next_finder.h"

namespace trl::reward::math {

struct Formula {
  std::string_view latex;  // without its delimiters
  bool percent = false;    // %, percent or pct follows
};

// Up to six formulas joined by "and", "or" or commas.
struct Region {
  size_t begin = 0, end = 0;
  std::vector<Formula> formulas;
};

class Regions {
 public:
  explicit Regions(std::string_view text);

  // Returns the region that begins exactly at a place. boxed: every formula must have a \boxed{...} in it.
  std::optional<Region> at(size_t place, bool boxed);
  std::vector<Region> all(bool boxed);  // from left to right, none overlapping

 private:
  struct Found {
    Formula formula;
    size_t end;
  };
  std::optional<Found> one(size_t place, bool boxed);
  std::optional<Found> delimited(size_t begin, NextFinder& close, size_t close_length, bool one_line,
                                 bool boxed);
  std::optional<Found> dollars(size_t place, bool boxed);
  std::optional<Found> brackets(size_t place, bool boxed);
  std::optional<Found> fraction(size_t place) const;
  size_t after_percent(size_t place, bool& percent) const;  // and after spaces, which belong to a formula
  size_t after_spaces(size_t place) const;
  bool holds_box(size_t begin, size_t end);

  std::string_view text_;
  NextFinder two_dollars_, dollar_, bracket_, parenthesis_, line_, square_, box_, brace_;
};

}  // namespace trl::reward::math
