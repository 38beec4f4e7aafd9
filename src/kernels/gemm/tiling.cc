#include "kernels/gemm/tiles.h"
#include "tensor/memory/rehearsal.h"

namespace trl::kernels {

Tiling::Tiling(int64_t m, int64_t n, int64_t k, bool a_transposed, bool b_in_place, bool many)
    : rows(m >= 1024 ? 256 : 128), cols(n) {
  constexpr int64_t kLong = 8192, kNarrow = 64, kNear = 1024;
  const auto split = [n](int64_t parts) { return round_up((n + parts - 1) / parts, 32); };
  if (EachRowByItself::active()) {
    // oneDNN's order of a sum follows from the shape of the tile; if B's part is small, only from its
    // columns (with AMX only up to this size; other kernels allow more).
    constexpr int64_t kSmall = int64_t{448} << 10;  // elements
    cols = split(n > kLong ? 16 : 2 * ((n + 767) / 768));
    rows = m >= 8 * kRowsTogether && k <= 1536 && k * cols <= kSmall ? 4 * kRowsTogether : kRowsTogether;
    return;
  }
  if (many && m <= kLong && n <= kLong) {
    rows = m;
    return;
  }
  if (n > kLong) {
    cols = split(16);
  } else if (m <= 256 || k > kLong) {
    cols = split(2 * ((n + 767) / 768));
  } else if (a_transposed && m < 1024) {
    rows = 160;
    cols = 288;
  } else if (b_in_place && n > kNear) {
    cols = split((n + 767) / 768);
  }
  if (n > kLong || m <= 256 || k > kLong) rows = n <= kNarrow ? 64 : 512;
  if (m <= rows) return;
  const int64_t near = (m + rows / 2) / rows, near_even = 2 * ((m + rows) / (2 * rows));
  const int64_t pieces = cols < n ? near : std::max<int64_t>(2, near_even);
  rows = round_up((m + pieces - 1) / pieces, 8);
}

std::vector<int64_t> begins_of(int64_t size, int64_t piece) {
  const int64_t last = (size - 1) / piece * piece;
  const bool ends_alone = tensor::Rehearsal::current() != nullptr && last > 0;
  std::vector<int64_t> begins;
  for (int64_t begin = 0; begin <= last; begin += ends_alone ? last : piece) begins.push_back(begin);
  return begins;
}

}  // namespace trl::kernels
