// Words of a command line that no flag took: what a person meant by them, as far as it can be told.
#pragma once
#include <string>
#include <vector>

#include "cli/arguments.h"

namespace trl::cli {

struct LeftWords {
  const CommandLine& line;
  Words words;                     // in order
  std::vector<std::string> flags;  // all that the command has, without dashes
  std::vector<std::string> given;  // those that were given
};

// Each flag that the command does not have is an error of its own, with the flag that was meant; words alone
// are one, which says what to write. Throws Failure.
[[noreturn]] void refuse(const LeftWords& left);

// Throws Failure for the first word that is a flag, other than those in flags; for commands that take words.
void refuse_flags(const char* command, const Words& words, const std::vector<std::string>& flags = {});

}  // namespace trl::cli
