#include "optim/pieces.h"

namespace trl::optim {

std::vector<Piece> pieces_of(const std::vector<int64_t>& counts) {
  std::vector<Piece> pieces;
  for (size_t t = 0; t < counts.size(); ++t) {
    for (int64_t begin = 0; begin < counts[t]; begin += kPieceElements) {
      pieces.push_back({t, begin, std::min(kPieceElements, counts[t] - begin)});
    }
  }
  return pieces;
}

}  // namespace trl::optim
