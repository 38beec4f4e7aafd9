#include "text/chat_template/assistant_mask.h"

#include <algorithm>

namespace trl::text {

std::vector<uint8_t> assistant_mask(const Rendered& rendered,
                                    const std::vector<std::pair<uint32_t, uint32_t>>& offsets) {
  std::vector<uint8_t> mask(offsets.size(), 0);
  for (const auto& [begin, end] : rendered.generation) {
    const auto covers = [first = begin, last = end](const auto& token) {
      return std::max<size_t>(token.first, first) < std::min<size_t>(token.second, last);
    };
    const auto from = std::find_if(offsets.begin(), offsets.end(), covers) - offsets.begin();
    const auto to = offsets.rend() - std::find_if(offsets.rbegin(), offsets.rend(), covers);
    if (from < to) std::fill(mask.begin() + from, mask.begin() + to, 1);
  }
  return mask;
}

}  // namespace trl::text
