// The low-rank terms of an embedding, y_t += scale b a[:, id_t].
#pragma once
#include "kernels/op.h"

namespace trl::kernels {

class EmbeddingTerms {
 public:
  explicit EmbeddingTerms(const LowRank& factors);
  bool empty() const { return factors_.a == nullptr; }
  // rows: [tokens, width], looked up. Returns what backward needs: [tokens, rank].
  at::Tensor add_to(at::Tensor& rows, const at::Tensor& ids) const;
  // dy: of the rows. Lookups of padding_row train nothing of a.
  void backward(const at::Tensor& dy, const at::Tensor& ids, const at::Tensor& reduced, int64_t padding_row);

 private:
  void add_gradient_of_a(const at::Tensor& d_reduced, const at::Tensor& ids, int64_t padding_row) const;

  LowRank factors_;
  tensor::Use a_, b_;
};

}  // namespace trl::kernels
