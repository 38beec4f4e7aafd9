// Sizes in bytes, as options give them.
#pragma once
#include <cstdint>
#include <optional>
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

}  // namespace trl::config
