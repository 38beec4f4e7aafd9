// An answer on a terminal: lines end between words.
#pragma once
#include <string>
#include <string_view>

namespace trl::cli {

class WordWrap {
 public:
  // Returns as much of a text that goes on as can be written now: a word is held back until its end is known.
  // width: of a line, in columns; 0: there are no lines, and all is written as it comes.
  std::string add(std::string_view text, int width);
  std::string rest();  // the word that was held back, at the end

 private:
  void place(int width, std::string& out);

  std::string word_;  // held back
  int length_ = 0;    // its columns
  int spaces_ = 0;    // before it
  int used_ = 0;      // columns of the line
  int width_ = 0;     // as it was last
};

}  // namespace trl::cli
