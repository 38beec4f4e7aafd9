// Lets only one run at a time write into an output directory: a lock (flock) on the directory itself, which
// ends with the process at the latest. Runs of one process share it. A file system without locks gives no
// such protection.
#pragma once
#include <memory>
#include <string>

namespace trl::checkpoint {

// Holds the lock as long as the result lives; null if the directory cannot be locked. Throws Error(io):
// another process holds it.
std::shared_ptr<void> lock_directory(const std::string& directory);

}  // namespace trl::checkpoint
