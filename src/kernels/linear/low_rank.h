// The low-rank terms of projections of one input, y_i += scale_i b_i (a_i x). The products a_i x of all terms
// are columns of one matrix, so each of x, its gradient and the gradients of the a's takes one product.
#pragma once
#include <vector>

#include "kernels/gemm/gemm.h"
#include "kernels/op.h"

namespace trl::kernels {

// scale times the values of w, in `type`; no copy if the values are that already.
at::Tensor scaled(Parameter& w, double scale, at::ScalarType type);

// Adds y to x in place; y may have rows that repeat.
void add_in_place(const at::Tensor& x, const at::Tensor& y);

inline tensor::Use use_of(const Parameter* parameter) {
  return parameter != nullptr ? tensor::Use(*parameter) : tensor::Use();
}

class LowRankTerms {
 public:
  explicit LowRankTerms(at::ArrayRef<Projection> projections);

  bool empty() const { return width_ == 0; }
  bool needs_input() const;  // in backward: whether an a is trained
  bool has_magnitudes() const;
  // The outputs of the projections with the terms, for an x of the products' type. kept: gets the tensors
  // that backward needs in addition to x; null: no backward. Without values the outputs are zeros, unless
  // backward needs them.
  tensor_list project(const at::Tensor& x, at::ArrayRef<Projection> projections, tensor_list* kept,
                      Wanted wanted = Wanted::values);

  // Adds the terms to outputs of the projections, as project() does if rows are independent. A magnitude puts
  // another tensor in an output's place.
  void add_terms(const at::Tensor& x, tensor_list& outputs);

  // d_outputs: the gradients of the outputs (undefined: none), which become the gradients of the outputs
  // before magnitudes. x may be undefined if no a is trained. dx becomes the gradient of x, of projections
  // and terms, unless it is undefined: not wanted.
  void backward(tensor_list& d_outputs, at::ArrayRef<Projection> projections, at::ArrayRef<at::Tensor> kept,
                at::Tensor x, at::Tensor& dx);

 private:
  struct Term {
    size_t output;
    Projection projection;
    int64_t first;  // index of its first column in the joined matrix
    tensor::Use a, b, bias, magnitude;
    at::Tensor norms = {};  // DoRA's
    const LowRank& factors() const { return projection.low_rank; }
  };
  at::Tensor columns(const at::Tensor& side_by_side, const Term& term) const {
    return side_by_side.narrow(1, term.first, term.factors().rank());
  }
  bool drops() const;
  // x in the type of the terms' products: bfloat16 factors make them bfloat16 even if the other products are
  // float32, as in PEFT.
  at::Tensor in_their_type(const at::Tensor& x) const;
  at::Tensor gain(const Term& term) const;
  at::Tensor stacked(at::ScalarType type, bool scaled) const;
  // kept: gets the elements of x that each term's dropout keeps; may be null
  at::Tensor reduced(const at::Tensor& x, tensor_list* kept) const;
  struct RowSums;
  RowSums row_sums(const at::Tensor& x) const;
  at::Tensor scaled_sums(const RowSums& sums, at::ScalarType type) const;
  std::vector<TensorFactors> products_of(const at::Tensor& reduced, size_t outputs) const;
  void add_biases_and_magnitudes(tensor_list& outputs, tensor_list* kept);
  void backward_of_magnitudes(tensor_list& d_outputs, at::ArrayRef<at::Tensor> kept);
  at::Tensor d_reduced(at::ArrayRef<at::Tensor> d_outputs, const at::Tensor& reduced) const;
  void add_dropped(const at::Tensor& d_reduced, at::ArrayRef<at::Tensor> words, at::Tensor& dx) const;
  void add_gradients_of_a(const at::Tensor& d_reduced, at::ArrayRef<at::Tensor> words,
                          const at::Tensor& x) const;

  std::vector<Term> terms_;
  int64_t width_ = 0;  // the sum of the ranks
};

}  // namespace trl::kernels
