// Wraps an answer on a terminal between words.
#pragma once
#include <string>
#include <string_view>

namespace trl::cli {

class WordWrap {
 public:
  // Returns as much of a continuing text as can be written now: a word is held back until its end is known.
  // width: of a line, in columns; 0: no lines, and all is written as it arrives.
  std::string add(std::string_view text, int width);
  std::string rest();  // the word that was held back, at the end

 private:
  void place(int width, std::string& out);

  std::string word_;  // held back
  int length_ = 0;    // its columns
  int spaces_ = 0;    // spaces before it
  int used_ = 0;      // columns of the line
  int width_ = 0;     // its last value
};

}  // namespace trl::cli
