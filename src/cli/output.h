// What the commands print on stdout. A write that fails is remembered and does not stop the work: a run whose
// reader went away (`| head -1`) still trains and saves.
#pragma once
#include <string_view>

namespace trl::cli {

// Written at once. false: stdout cannot be written any more.
bool print(std::string_view text);

// The exit code, given what happened to stdout: a reader that went away is not a failure, anything else is.
int with_output(int code);

}  // namespace trl::cli
