// Tensors cut into pieces of a fixed size: the unit of work of the optimizer, and of sums that must not
// depend on the number of threads.
#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

namespace trl::optim {

inline constexpr int64_t kPieceElements = 1 << 15;

struct Piece {
  size_t tensor;  // index into the list
  int64_t begin;  // element
  int64_t count;
};

std::vector<Piece> pieces_of(const std::vector<int64_t>& counts);  // numbers of elements of the tensors

}  // namespace trl::optim
