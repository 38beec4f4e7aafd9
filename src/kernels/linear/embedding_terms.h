// The changes of an adapter to a lookup.
#pragma once
#include "kernels/op.h"

namespace trl::kernels {

// The row of `own` that each token reads, or kTablesOwn: int32 [tokens].
inline constexpr int32_t kTablesOwn = -1;
at::Tensor places_of(const at::Tensor& ids, const OwnRows& own);
// The ids, with `none` for tokens that read a row of an adapter's own; places may be undefined.
at::Tensor tables_own(const at::Tensor& ids, const at::Tensor& places, int64_t none);
// Writes these rows in place of the looked-up ones.
void put_rows(const at::Tensor& looked_up, const at::Tensor& places, Parameter& own);

// An adapter's changes to a lookup: low-rank terms, y_t += scale b a[:, id_t], and rows of its own.
class EmbeddingTerms {
 public:
  explicit EmbeddingTerms(const LowRank& factors);
  bool empty() const { return factors_.a == nullptr; }
  // rows: [tokens, width], looked up. Returns the `reduced` for backward(): [tokens, rank].
  at::Tensor add_to(at::Tensor& rows, const at::Tensor& ids) const;
  // dy: gradient of the rows. Lookups of padding_row do not train a.
  void backward(const at::Tensor& dy, const at::Tensor& ids, const at::Tensor& reduced, int64_t padding_row);

 private:
  void add_gradient_of_a(const at::Tensor& d_reduced, const at::Tensor& ids, int64_t padding_row) const;

  LowRank factors_;
  tensor::Use a_, b_;
};

}  // namespace trl::kernels
