// The help of a command: one screen with the required and common flags, and every key by topic.
#pragma once
#include "cli/arguments.h"

namespace trl::cli {

std::string short_help(const CommandLine& line, int width);
std::string full_help(const CommandLine& line, int width);  // --help-all
std::string usage(const CommandLine& line);                 // "trl sft [--KEY VALUE ...]"

}  // namespace trl::cli
