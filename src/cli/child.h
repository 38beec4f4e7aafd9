// A program that this command starts: it reads lines from its stdin and answers each with a line on its
// stdout. Its stderr is this command's.
#pragma once
#include <sys/types.h>

#include <string>

namespace trl::cli {

class Child {
 public:
  // Starts `sh -c line` in a process group of its own, so that Ctrl-C reaches this command alone. Throws
  // std::system_error.
  explicit Child(const std::string& line);
  // Closes its stdin, and stops it if it does not end within a few seconds.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  // Writes a line, and returns the next one that the program writes, both without line ends. Throws
  // std::runtime_error, which says how it ended, or what it wrote besides.
  std::string ask(std::string request);
  void stop() const;  // at once; another thread may be in ask(), which then throws

 private:
  bool wait(int milliseconds) const;  // true: it has ended
  std::string how_it_ended() const;
  void refuse_more();  // throws std::runtime_error if the program has written what is nobody's answer

  pid_t id_ = 0;
  int to_ = -1, from_ = -1;
  std::string read_;  // that was not returned yet
};

}  // namespace trl::cli
