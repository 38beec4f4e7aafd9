// Which tokens of a rendered chat the model itself writes: those of its {% generation %} blocks.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "text/chat_template/chat_template.h"

namespace trl::text {

// offsets: each token's byte range in rendered.text; {0, 0} for tokens that are not in it. 1: trained. As
// transformers has it: from the token that holds a block's first character to the token that holds its last
// one.
std::vector<uint8_t> assistant_mask(const Rendered& rendered,
                                    const std::vector<std::pair<uint32_t, uint32_t>>& offsets);

}  // namespace trl::text
