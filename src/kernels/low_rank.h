// The low-rank terms of projections of one input, y_i += scale_i b_i (a_i x). What all of them make of x lies
// side by side, so each of x, its gradient and the gradients of the a's takes one product.
#pragma once
#include <vector>

#include "kernels/op.h"

namespace trl::kernels {

class LowRankTerms {
 public:
  explicit LowRankTerms(at::ArrayRef<Projection> projections);

  bool empty() const { return width_ == 0; }
  bool needs_input() const;  // in backward: an a is trained
  // Of x in its type, which is that of the products: scale_i a_i x, [tokens, sum of the ranks].
  at::Tensor reduced(const at::Tensor& x) const;
  // y_i += b_i times its columns of `reduced`.
  void add_to(std::vector<at::Tensor>& outputs, const at::Tensor& reduced) const;

  // Of the gradients of the outputs (undefined: there is none); x may be undefined where no a is trained. dx
  // is added to.
  void backward(at::ArrayRef<at::Tensor> d_outputs, const at::Tensor& reduced, const at::Tensor& x,
                at::Tensor& dx);

 private:
  struct Term {
    size_t output;
    LowRank factors;
    int64_t first;  // of its columns
    tensor::Use a, b;
  };
  at::Tensor columns(const at::Tensor& side_by_side, const Term& term) const {
    return side_by_side.narrow(1, term.first, term.factors.rank());
  }
  at::Tensor stacked(at::ScalarType type, bool scaled) const;
  at::Tensor d_reduced(at::ArrayRef<at::Tensor> d_outputs, const at::Tensor& reduced) const;
  void add_gradients(const at::Tensor& d_reduced, const at::Tensor& x) const;

  std::vector<Term> terms_;
  int64_t width_ = 0;  // sum of the ranks
};

}  // namespace trl::kernels
