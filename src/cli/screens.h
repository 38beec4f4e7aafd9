// The contents of the one screen of a command's --help.
#pragma once
#include <string>
#include <vector>

namespace trl::cli {

struct ScreenLine {
  const char* flag;   // without dashes: a key's, or the command's own
  const char* value;  // "DIR"; "" for a switch
  std::string text;   // a few words
};
struct Screen {
  std::string words;  // after the command's name, instead of its flags; "": it takes flags
  std::vector<ScreenLine> required, common;
  std::vector<std::string> examples;
};

const Screen& screen_of(const std::string& command);

}  // namespace trl::cli
