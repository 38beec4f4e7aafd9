// log_completions on the terminal.
#pragma once
#include <string>
#include <string_view>

namespace trl::cli {

// Returns a table of completions, as many columns wide as width says, if that leaves room for its texts.
// json: the text `completions` of TRL_ON_LOG.
std::string completions_table(std::string_view json, int width);

}  // namespace trl::cli
