// Sizes in bytes, and keys that name something on this machine. A model hub is never asked.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/config.h"

namespace trl::config {

// Returns the bytes of a text option, as save_pretrained of transformers 5.23 reads them: an integer, or a
// number with TB, GB, MB or KB (powers of 1000, in any case). At least 1. Throws Error(invalid_config).
int64_t byte_size(const Config& config, const char* key);
// Does the same for sizes of memory: also with TiB, GiB, MiB or KiB (powers of 1024).
int64_t memory_size(const Config& config, const char* key);
// Returns empty if the text is not a size. The size may be 0 or negative.
std::optional<int64_t> parse_memory_size(std::string_view text);

// Throws Error(invalid_config) for a path of the host (base/files/host_files.h).
void refuse_host_path(std::string_view key, const std::string& value);

// Throws Error(not_found) if the path does not exist: a name that looks like a hub id is answered with "give
// a local path".
void check_local_path(std::string_view key, const std::string& value);

// Returns a directory that a run writes into; `otherwise` if none is given. Throws Error(invalid_config) for
// one that begins with '~'.
std::string directory(const Config& config, std::string_view key, const std::string& otherwise);

}  // namespace trl::config
