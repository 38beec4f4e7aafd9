// Marks the tokens of a rendered chat that the model itself writes: those of its {% generation %} blocks.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "text/chat_template/chat_template.h"

namespace trl::text {

// offsets: each token's byte range in rendered.text; {0, 0} for tokens that are not in it. Returns 1 for a
// token that is trained. A block has the tokens from the first to the last that hold a part of it; an empty
// block has none.
std::vector<uint8_t> assistant_mask(const Rendered& rendered,
                                    const std::vector<std::pair<uint32_t, uint32_t>>& offsets);

}  // namespace trl::text
