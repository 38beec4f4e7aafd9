// Sizes as save_pretrained of transformers 5.23 takes them.
#pragma once
#include <cstdint>

#include "config/config.h"

namespace trl::config {

// Bytes of a text option: an integer, or a number with TB, GB, MB or KB (powers of 1000, in any case). At
// least 1. Throws Error(invalid_config).
int64_t byte_size(const Config& config, const char* key);
// The same for sizes of memory: also with TiB, GiB, MiB or KiB (powers of 1024).
int64_t memory_size(const Config& config, const char* key);

}  // namespace trl::config
