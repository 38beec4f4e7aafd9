#include "kernels/path.h"

namespace trl::kernels {

namespace {
thread_local Path current = Path::fused;
}

Path path() { return current; }

PathScope::PathScope(Path path) : before_(current) { current = path; }
PathScope::~PathScope() { current = before_; }

}  // namespace trl::kernels
