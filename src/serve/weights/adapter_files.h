// Directories of adapters that requests name: they are below one folder, and of a rank that is accepted.
#pragma once
#include <cstdint>
#include <string>

namespace trl::serve {

// Resolves a path, which counts from folder unless it is absolute. Throws Refusal(404) if there is no
// such directory, and 403 if it, or a file of the adapter, is not below the folder once links are followed.
std::string adapter_below(const std::string& folder, const std::string& path);

// Throws Refusal(400) for a file of the adapter that is not a regular one, such as a pipe, whose reader would
// wait for a writer.
void check_files(const std::string& directory);

// Throws the same, Refusal(400) for a rank above the limit, and Error for a directory that has no adapter.
void check_rank(const std::string& directory, int64_t most);

}  // namespace trl::serve
