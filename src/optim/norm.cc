#include "optim/norm.h"

#include "kernels/path.h"
#include "optim/optim.h"
#include "optim/plain.h"
#include "optim/update.h"
#include "tensor/threads/parallel.h"

namespace trl::optim {

std::vector<at::Tensor> gradients(const std::vector<Parameter*>& parameters) {
  std::vector<at::Tensor> all;
  for (const Parameter* p : parameters)
    if (p->has_gradient()) all.push_back(p->gradient());
  return all;
}

namespace {

// The sum of squares of each piece of the tensors.
std::vector<double> square_sums(const std::vector<at::Tensor>& tensors) {
  std::vector<int64_t> counts;
  for (const at::Tensor& x : tensors) counts.push_back(x.numel());
  const std::vector<Piece> pieces = pieces_of(counts);
  std::vector<double> sums(pieces.size());
  tensor::parallel_for(static_cast<int64_t>(pieces.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end && !base::stopped(); ++i) {
      const Piece& piece = pieces[static_cast<size_t>(i)];
      const at::Tensor& x = tensors[piece.tensor];
      sums[static_cast<size_t>(i)] =
          x.scalar_type() == at::kFloat
              ? sum_squares(x.data_ptr<float>() + piece.begin, piece.count)
              : sum_squares(static_cast<const base::bf16*>(x.data_ptr()) + piece.begin, piece.count);
    }
  });
  return sums;
}

double add_up(double total, const std::vector<double>& sums) {
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace

double l2_norm(const std::vector<at::Tensor>& tensors) {
  if (!tensors.empty() && !kernels::fused(tensors[0])) return plain::l2_norm(tensors);
  return std::sqrt(add_up(0, square_sums(tensors)));
}

double NormOfParts::add(size_t index, const at::Tensor& x) {
  if (!kernels::fused(x)) {
    plain_[index] = plain::own_norm(x);
    const auto norm = plain_[index].item<double>();
    return norm * norm;
  }
  sums_[index] = square_sums({x});
  return add_up(0, sums_[index]);
}

double NormOfParts::norm() const {
  if (!plain_.empty() && plain_[0].defined()) return plain::norm_of(plain_);
  double total = 0;
  for (const std::vector<double>& sums : sums_) total = add_up(total, sums);
  return std::sqrt(total);
}

double clip_scale(double norm, double max_norm) {
  const double scale = max_norm <= 0 ? 1.0 : max_norm / (norm + 1e-6);
  return scale > 1.0 ? 1.0 : scale;  // NaN stays, as in clip_grad_norm_
}

std::vector<Piece> pieces_of(const std::vector<int64_t>& counts) {
  std::vector<Piece> pieces;
  for (size_t t = 0; t < counts.size(); ++t)
    for (int64_t begin = 0; begin < counts[t]; begin += kPieceElements)
      pieces.push_back({t, begin, std::min(kPieceElements, counts[t] - begin)});
  return pieces;
}

}  // namespace trl::optim
