// Lets only one run at a time write into an output directory: a lock (flock) on the directory itself, which
// ends with the process at the latest. Runs of one process share it. On a file system without locks there is
// none.
#pragma once
#include <memory>
#include <string>

namespace trl::checkpoint {

// Held as long as the result lives; null where the directory cannot be locked. Throws Error(io): another
// process holds it.
std::shared_ptr<void> lock_directory(const std::string& directory);

}  // namespace trl::checkpoint
