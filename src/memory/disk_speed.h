// The speed at which the disk of a directory writes offloaded data and reads it back.
#pragma once
#include <string>

namespace trl::memory {

struct DiskSpeed {
  double write = 0, read = 0;  // bytes per second
};
// Measured with 64 MiB in an unnamed file in the directory, or as much as a third of a second allows, and
// then remembered. Throws the errors of UnnamedFile, and Error(io).
DiskSpeed disk_speed(const std::string& directory);

}  // namespace trl::memory
