// How fast the disk of a directory writes what leaves memory, and reads it back.
#pragma once
#include <string>

namespace trl::memory {

struct DiskSpeed {
  double write = 0, read = 0;  // bytes a second
};
// Measured with 64 MiB in an unnamed file there, or as much as a third of a second allows, and then
// remembered. Throws what UnnamedFile does, and Error(io).
DiskSpeed disk_speed(const std::string& directory);

}  // namespace trl::memory
