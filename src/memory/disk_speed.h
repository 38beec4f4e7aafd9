// How fast a directory's disk takes what leaves memory, and gives it back.
#pragma once
#include <string>

namespace trl::memory {

struct DiskSpeed {
  double write = 0, read = 0;  // bytes a second
};
// Of some 64 MiB in an unnamed file there, or as many as a third of a second allows; known from then on.
// Throws what UnnamedFile does, and Error(io).
DiskSpeed disk_speed(const std::string& directory);

}  // namespace trl::memory
