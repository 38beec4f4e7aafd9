// See length_order.h.
#include "data/length_order.h"

#include <algorithm>
#include <functional>

namespace trl::data {

void group_by_length(std::vector<uint32_t>& lengths, int64_t batch_size, base::TorchGenerator& generator) {
  if (lengths.empty()) return;
  base::permute(lengths, generator);
  const int64_t rows = static_cast<int64_t>(lengths.size());
  const size_t mega_batch =
      static_cast<size_t>(std::clamp<int64_t>(rows / (batch_size * 4), 1, 50) * batch_size);
  size_t longest = 0;  // where the mega-batch with the longest row begins
  for (size_t begin = 0; begin < lengths.size(); begin += mega_batch) {
    const size_t end = std::min(lengths.size(), begin + mega_batch);
    std::sort(lengths.begin() + static_cast<std::ptrdiff_t>(begin),
              lengths.begin() + static_cast<std::ptrdiff_t>(end), std::greater<>());
    if (lengths[begin] > lengths[longest]) longest = begin;
  }
  std::swap(lengths.front(), lengths[longest]);  // what does not fit into memory fails at once
}

}  // namespace trl::data
