// What the one screen of a command's --help shows.
#pragma once
#include <string>
#include <vector>

namespace trl::cli {

struct ScreenLine {
  const char* flag;   // without dashes: a key's, or one of the command's own
  const char* value;  // "DIR"; "" for a switch
  const char* text;   // a few words
};
struct Screen {
  std::string words;  // after the command's name, in place of its flags; "": it takes flags
  std::vector<ScreenLine> required, common;
  std::vector<std::string> examples;
};

const Screen& screen_of(const std::string& command);

}  // namespace trl::cli
