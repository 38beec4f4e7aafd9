// The head's table for the plain path: logits of some rows, and the products of their gradients.
#pragma once
#include "kernels/head/head.h"

namespace trl::kernels::plain {

class PlainTable {
 public:
  // All arguments but the head must outlive it.
  PlainTable(const at::Tensor& hidden, Parameter& head, const HeadOptions& options, const HeadGradients& to);

  int64_t tile_rows() const;  // that fit into a tile, or as many as the options say
  bool learns() const { return to_.d_hidden.defined() || to_.d_head.high.defined(); }
  // several: more than one tile adds to the gradient of the head.
  void begin(bool several);
  // Scaled and capped logits over the temperature, of rows in the compute type: [rows, vocab].
  at::Tensor logits(const at::Tensor& x) const;
  // Adds the gradients of these rows of hidden (int64) and of the table. d: the gradient of what logits(x)
  // gave, which is overwritten.
  void add(const at::Tensor& rows, const at::Tensor& x, const at::Tensor& logits, const at::Tensor& d);
  void finish();

 private:
  const at::Tensor& hidden_;
  const at::Tensor table_;
  const HeadOptions& options_;
  const HeadGradients& to_;
  at::Tensor ids_, d_weight_;
};

}  // namespace trl::kernels::plain
