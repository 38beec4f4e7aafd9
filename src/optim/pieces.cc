#include "optim/pieces.h"

namespace trl::optim {

std::vector<Piece> pieces_of(const std::vector<tensor::Parameter*>& parameters) {
  std::vector<Piece> pieces;
  for (size_t p = 0; p < parameters.size(); ++p) {
    if (!parameters[p]->trainable()) continue;
    const int64_t count = parameters[p]->value.numel();
    for (int64_t begin = 0; begin < count; begin += kPieceElements) {
      pieces.push_back({p, begin, std::min(kPieceElements, count - begin)});
    }
  }
  return pieces;
}

}  // namespace trl::optim
