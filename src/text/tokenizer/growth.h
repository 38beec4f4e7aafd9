// A limit to what the steps make of a text: otherwise a few lines of a hostile file could ask for all the
// memory there is.
#pragma once
#include <cstddef>

#include "base/error.h"

namespace trl::text {

// Far above what any step of a known tokenizer makes (NFKC: 18 bytes of one character).
inline void refuse_growth(size_t before, size_t after, const char* steps) {
  if (after > 64 * before + (size_t{1} << 20))
    fail(Status::unsupported, "the steps of the {} make more than {} bytes of {}", steps, after - 1, before);
}

}  // namespace trl::text
