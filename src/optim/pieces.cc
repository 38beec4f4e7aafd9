#include "optim/pieces.h"

namespace trl::optim {

std::vector<Piece> pieces_of(const std::vector<at::Tensor>& tensors) {
  std::vector<Piece> pieces;
  for (size_t t = 0; t < tensors.size(); ++t) {
    const int64_t count = tensors[t].numel();
    for (int64_t begin = 0; begin < count; begin += kPieceElements) {
      pieces.push_back({t, begin, std::min(kPieceElements, count - begin)});
    }
  }
  return pieces;
}

}  // namespace trl::optim
