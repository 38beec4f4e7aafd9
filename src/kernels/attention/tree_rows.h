// Segments as trees: the rows that see each other, in the form that kernels read.
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/kernels.h"

namespace trl::kernels {

// Throws Error(invalid_argument) unless the prefix of a segment is the one before it or one that this
// continues.
void check_order(const Segments& segments);

struct TreeRows {
  explicit TreeRows(const Segments& segments);  // in order

  // [trees + 1], the first row of each; a segment without a prefix begins a tree.
  std::vector<int64_t> starts;
  // Empty if no segment has a prefix or padding. For each row, counted from the first row of its tree: until,
  // the row after the last one that sees it, or the row itself if none does; position, its place in its
  // sequence, with a block of zeros after the last.
  std::vector<int32_t> until, position;
};

}  // namespace trl::kernels
