// Products in 8-bit integers, through oneDNN. Their sums are exact, so a result does not depend on the number
// of threads.
#pragma once
#include <ATen/ATen.h>
#include <cstdint>
#include <vector>

#include "kernels/gemm/gemm.h"
#include "kernels/kernels.h"

namespace trl::kernels {

// Whether this machine has instructions for such products that never saturate: AVX512-VNNI or AMX-INT8.
bool has_int8_products();

// A right-hand matrix of codes from -127 to 127 in the layout that the product reads; its memory is counted
// as weights.
class Int8Matrix {
 public:
  explicit Int8Matrix(const at::Tensor& codes);  // int8 [rows, columns], of any strides

  struct Panel {
    int64_t first, count;  // columns
    at::Tensor bytes;
  };
  int64_t rows() const { return rows_; }
  const std::vector<Panel>& panels() const { return panels_; }

 private:
  int64_t rows_;
  std::vector<Panel> panels_;
};

// y = x diag(factors) b diag(steps) + added + beta y, rounded once.
struct Int8Multiplication {
  const Int8Matrix* b;
  const float* steps;  // [columns of b], or null: all are 1
  at::Tensor y;        // [rows of x, columns of b], float32 or bfloat16
  float beta;          // 0 or 1
  // A product of bfloat16 matrices, of y's size, computed in bfloat16; without factors, none.
  TensorFactors added = {};
};
// Several products with one x: [tokens, rows of b], float32 or bfloat16. Each row of x diag(factors) is
// rounded to codes by the row's largest absolute value. factors: [rows of b], or null. The results of a row
// that is not finite are not finite.
void gemm_int8(const at::Tensor& x, const float* factors, at::ArrayRef<Int8Multiplication> all);

// A frozen weight in 8-bit codes, for the products of a base model under adapters (frozen_compute: int8).
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
