// The two quirks of transformers are kept: a block that begins after the last token ends the search, and one
// whose end has no token (cut off) runs to the last token.
#include "text/chat_template/assistant_mask.h"

#include <algorithm>

namespace trl::text {

std::vector<uint8_t> assistant_mask(const Rendered& rendered,
                                    const std::vector<std::pair<uint32_t, uint32_t>>& offsets) {
  std::vector<uint8_t> mask(offsets.size(), 0);
  const std::string& text = rendered.text;
  const auto token_at = [&](size_t byte) {
    const auto found = std::find_if(offsets.begin(), offsets.end(), [&](const auto& range) {
      return byte >= range.first && byte < range.second;
    });
    return static_cast<size_t>(found - offsets.begin());
  };
  for (const auto& [begin, end] : rendered.generation) {
    size_t last = end == 0 ? text.size() : end - 1;  // the first byte of the block's last character
    while (last > 0 && last < text.size() && (static_cast<unsigned char>(text[last]) & 0xC0) == 0x80) --last;
    const size_t first_token = token_at(begin);
    const size_t last_token = token_at(last);
    if (first_token == offsets.size()) break;
    const bool to_the_end = last_token == 0 || last_token == offsets.size();
    for (size_t i = first_token; i < (to_the_end ? offsets.size() : last_token + 1); ++i) mask[i] = 1;
  }
  return mask;
}

}  // namespace trl::text
