// Prints the output of the commands: text that fits the terminal, words and tokens as they come; and tells
// whether stdout takes it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trl::cli {

// Returns the columns of the terminal behind a file descriptor, asked again at each call; 80 if it is not a
// terminal.
int columns(int descriptor);

// Wraps text into lines of at most width characters, each after indent spaces except the first, which
// continues after `used` characters of its line. Words are not divided; no line break at the end.
std::string wrapped(std::string_view text, int indent, int width, int used);
inline std::string wrapped(std::string_view text, int indent, int width) {
  return std::string(static_cast<size_t>(indent), ' ') + wrapped(text, indent, width, indent);
}

int characters(std::string_view text);  // in UTF-8 text
int width_of(std::string_view text);    // in columns of a terminal
// Returns the beginning of a text that fits in width columns, and has at least a character.
std::string_view fitting(std::string_view text, int width);

std::string duration(double seconds);   // "2:03:04", "3:04"
std::string time_text(double seconds);  // "2 h 03 min", "14 min 20 s", "4 s"

// Writes to stdout at once. false: it cannot be written any more, which does not stop the work: a run whose
// reader exited (`| head -1`) still trains and saves.
bool print(std::string_view text);

// Returns the exit code, given the state of stdout: a reader that exited is not a failure, any other error
// is.
int with_output(int code);

// Wraps an answer on a terminal between words.
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

// A token that print_token prints as a line: the id, whether it is trained on, its piece and its text as
// JSON; coloured on a terminal.
struct TokenLine {
  int32_t id;
  std::optional<bool> trained;  // nullopt if nothing is trained
  std::string piece;            // as in the vocabulary
  std::string text;             // its part of the text
};
void print_token(const TokenLine& token);

}  // namespace trl::cli
