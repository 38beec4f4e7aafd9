// Which libtorch is in this process already, and whether it is the one that the engine would bring. Two of
// them crash (docs: one libtorch per process), so this is asked before the engine is opened.
#pragma once
#include <string>

namespace trl::engine {

// false: none is mapped. true: the engine's own is. Throws Error(unsupported), naming both with version and
// path, when it is another one.
bool shares_mapped_torch(const std::string& engine_path);

// "1.13" from libtorch_cpu.so.1.13, "2.15.0+cpu" from version.py beside a Python package's lib/; else
// "unknown".
std::string torch_version_of(const std::string& library_path);

}  // namespace trl::engine
