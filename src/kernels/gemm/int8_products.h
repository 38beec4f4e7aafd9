// A frozen weight in 8-bit codes, for the products of a base model under adapters (frozen_compute: int8).
#pragma once
#include "kernels/gemm/gemm_int8.h"
#include "kernels/kernels.h"

namespace trl::kernels {

class Int8Products {
 public:
  // Each output's row of the weight becomes codes by the row's largest absolute value. Takes two bytes for
  // each element, one layout for each direction. Throws Error(unsupported) if has_int8_products() is false.
  explicit Int8Products(const Projection& p);

  // Whether the projection still has the weight that these codes were made from: an adapter may have replaced
  // it.
  bool are_of(const Projection& p) const { return p.weight == weight_; }
  // A product with x [tokens, in] for gemm_int8(): y [tokens, out] = x w^T + added + beta y.
  Int8Multiplication forward(const at::Tensor& y, const TensorFactors& added, float beta) const {
    return {&forward_, steps_.data_ptr<float>(), y, beta, added};
  }
  // dx = dy w + added + beta dx. dy: [tokens, out], dx: [tokens, in]
  void input_gradient(const at::Tensor& dy, const TensorFactors& added, const at::Tensor& dx,
                      float beta) const {
    gemm_int8(dy, steps_.data_ptr<float>(), Int8Multiplication{&backward_, nullptr, dx, beta, added});
  }

 private:
  struct Codes {
    at::Tensor values, steps;  // int8 [out, in], float32 [out]
  };
  Int8Products(const Projection& p, const Codes& codes);
  static Codes codes_of(const Projection& p);

  const Parameter* weight_;
  at::Tensor steps_;
  Int8Matrix forward_, backward_;
};

}  // namespace trl::kernels
