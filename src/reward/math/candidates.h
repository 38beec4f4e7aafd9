// Finds the places of a text that may hold the answer, by the words before them.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "reward/math/plain_numbers.h"
#include "reward/math/regions.h"

namespace trl::reward::math {

struct Candidate {
  size_t begin = 0, end = 0;
  std::vector<Formula> formulas;  // none: a box or a number
  std::string_view boxed;         // from the first \boxed{ to the last }
  PlainValue plain;               // a number or arithmetic, if both are empty
};

class Candidates {
 public:
  // numbers: whether plain numbers count as well as formulas.
  Candidates(std::string_view text, bool numbers);

  // Each returns the places in any order.
  std::vector<Candidate> hoped();         // final answer is X. I hope
  std::vector<Candidate> final_answer();  // final answer ... is X
  std::vector<Candidate> boxed();
  std::vector<Candidate> answer(bool colon);
  std::vector<Candidate> anywhere();

 private:
  // Returns the ends of the last places that have these words, in any case, from left to right.
  std::vector<size_t> ends_of(std::string_view words) const;
  size_t after_spaces(size_t place) const;
  // Append an answer that begins at the place, and return its end; return 0 if there is none.
  size_t add_formula(std::vector<Candidate>& out, size_t begin, size_t place);
  size_t add_number(std::vector<Candidate>& out, size_t begin, size_t place, bool before_equals = true);
  size_t add_first_formula(std::vector<Candidate>& out, size_t begin);
  size_t add_first_number(std::vector<Candidate>& out, size_t begin);

  std::string_view text_;
  std::string small_;  // in small letters
  bool numbers_;
  Regions regions_;
};

}  // namespace trl::reward::math
