// Segments as trees: which rows see which, in a form that kernels read.
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/kernels.h"

namespace trl::kernels {

// Error(invalid_argument) where the prefix of a segment is neither the one before it nor one that this
// continues.
void check_order(const Segments& segments);

struct TreeRows {
  explicit TreeRows(const Segments& segments);  // in order

  std::vector<int64_t> starts;  // [trees + 1], the first row of each: a segment without a prefix begins one
  // Empty where no segment has a prefix. Of each row, counted from the first of its tree: after which row
  // the last one that sees it lies; and its place in its sequence, with a block of zeros after the last.
  std::vector<int32_t> until, position;
};

}  // namespace trl::kernels
