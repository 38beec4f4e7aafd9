// Reads lines that a person types: with editing and their own history on a terminal (libedit), else unedited.
#pragma once
#include <memory>
#include <optional>
#include <string>

namespace trl::cli {

class LineReader {
 public:
  explicit LineReader(const char* prompt);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  enum class End { line, dropped, input };
  // Reads a line without its end, or returns why there is no line: Ctrl-C, or the end of the input.
  End read(std::string& line);
  bool on_terminal() const { return editor_ != nullptr; }

 private:
  struct Editor;
  std::unique_ptr<Editor> editor_;  // null: not a terminal
};

}  // namespace trl::cli
