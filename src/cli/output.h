// Output of the commands on stdout. A write that fails is remembered and does not stop the work: a run whose
// reader exited (`| head -1`) still trains and saves.
#pragma once
#include <string_view>

namespace trl::cli {

// Writes at once. false: stdout cannot be written any more.
bool print(std::string_view text);

// Returns the exit code, given the state of stdout: a reader that exited is not a failure, any other error
// is.
int with_output(int code);

}  // namespace trl::cli
