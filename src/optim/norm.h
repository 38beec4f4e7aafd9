// Norms, and the pieces that they are summed in.
#pragma once
#include <ATen/ATen.h>
#include <cstdint>
#include <vector>

namespace trl::optim {

// l2_norm() of tensors that do not all exist at the same time.
class NormOfParts {
 public:
  explicit NormOfParts(size_t tensors = 0) : sums_(tensors), plain_(tensors) {}
  double add(size_t index, const at::Tensor& x);  // in any order; returns the sum of x's squares
  double norm() const;                            // bit-equal to l2_norm() of all of them in their order

 private:
  std::vector<std::vector<double>> sums_;  // sums of each tensor's pieces
  std::vector<at::Tensor> plain_;          // each tensor's norm, off the fused path
};

// Tensors are cut into pieces of a fixed size: the unit of work of the optimizer, and of sums that must not
// depend on the number of threads.
inline constexpr int64_t kPieceElements = 1 << 15;

struct Piece {
  size_t tensor;  // index into the list
  int64_t begin;  // element
  int64_t count;
};

std::vector<Piece> pieces_of(const std::vector<int64_t>& counts);  // numbers of elements of the tensors

}  // namespace trl::optim
