// Explains words of a command line that no flag took: the flag that a person meant, as far as it can be told.
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

// Reports each flag that the command does not have as its own error, with the flag that was meant; words
// without a flag are one error, which says what to write. Throws Failure.
[[noreturn]] void refuse(const LeftWords& left);

// Throws Failure for the first word that is a flag, other than those in flags; for commands that take words.
void refuse_flags(const char* command, const Words& words, const std::vector<std::string>& flags = {});

}  // namespace trl::cli
