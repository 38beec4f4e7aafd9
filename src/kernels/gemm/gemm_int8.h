// Products in 8-bit integers, through oneDNN. Their sums are exact, so a result does not depend on the number
// of threads.
#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "kernels/gemm/gemm.h"

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

}  // namespace trl::kernels
