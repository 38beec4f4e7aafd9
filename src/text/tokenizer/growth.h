// Limits the size of the text that the steps produce: otherwise a few lines of a hostile file could ask for
// all memory.
#pragma once
#include <cstddef>

#include "base/error.h"

namespace trl::text {

// The limit is far above the output of any step of a known tokenizer (NFKC: 18 bytes for one character).
inline void refuse_growth(size_t before, size_t after, const char* steps) {
  if (after > 64 * before + (size_t{1} << 20))
    fail(Status::unsupported, "the steps of the {} make more than {} bytes of {}", steps, after - 1, before);
}

}  // namespace trl::text
