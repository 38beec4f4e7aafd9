// Copies of weights in fewer bits, with which generation computes in place of the weights.
#pragma once
#include <ATen/ATen.h>

#include <cstdint>

#include "kernels/kinds.h"
#include "tensor/parameter/parameter.h"

namespace trl::kernels {

// The relative error of a copy is the 2-norm of what it differs by, divided by that of the weight.
struct NarrowErrors {
  double values = 0, errors = 0;  // the sums of the squares
  double worst = 0;               // the largest relative error of an output's row
};

// A copy of the weight of a projection, of a head, or of one projection of all experts, whose matrices follow
// each other:
//   bfloat16  numbers, rounded to the nearest
//   int8      codes from -127 to 127 of a step for each output, its largest absolute value / 127
//   int4      codes from -8 to 7 of a step for each 32 terms of an output, which is in bfloat16: the value of
//             the largest absolute value / -8, as in llama.cpp's Q4_0
// Products with codes are in integers. The rows that are multiplied with them are rounded to 8-bit codes
// of a step for each 32 terms, their largest absolute value / 127, as llama.cpp's Q8_0. The bits of a row's
// result depend only on it, the copy and the instruction set.
class NarrowWeight {
 public:
  struct Rows {
    int64_t first, count;
  };
  // Whether a weight can be copied: a matrix, or [experts, out, in] with panels that belong to one expert.
  static bool takes(const tensor::Parameter& weight);

  // Copies the weight, [out, in], or [in, out] if transposed, or [experts, out, in]; numbers or encoded. The
  // weight must outlive the copy, which is counted as weights.
  NarrowWeight(tensor::Parameter& weight, bool transposed, NarrowType type);

  // Copies the weight again if it has changed. The time is that of reading the weight once, and writing the
  // copy.
  void refresh();

  NarrowType type() const { return type_; }
  int64_t outputs() const { return outputs_; }
  int64_t terms() const { return terms_; }
  int64_t bytes() const { return values_.nbytes(); }
  const NarrowErrors& errors() const { return errors_; }
  // bfloat16: [out, in]; else panels (cpu/cpu_kernels.h), as bytes.
  const at::Tensor& values() const { return values_; }
  const void* row(int64_t output) const;  // where an output's values, or its panel, begin
  // The values that the copy of some outputs stands for: float32 [outputs, in].
  at::Tensor numbers(Rows of) const;
  at::Tensor numbers() const { return numbers({0, outputs_}); }

 private:
  struct RowErrors;
  void copy();
  void copy_rows(int64_t first, int64_t rows, const void* from, RowErrors& errors);

  tensor::Parameter* weight_;
  bool transposed_;
  NarrowType type_;
  int64_t outputs_, terms_;
  at::Tensor values_;
  uint64_t changes_ = 0;  // of the weight, when it was copied
  NarrowErrors errors_;
};

namespace plain {
// y = x w^T + b with the rounded x, in ATen's operators: of x's type. x: [rows, in], bias: [out] or
// undefined. of: some outputs.
at::Tensor narrow_product(const at::Tensor& x, const NarrowWeight& w, const at::Tensor& bias,
                          NarrowWeight::Rows of);
at::Tensor narrow_product(const at::Tensor& x, const NarrowWeight& w, const at::Tensor& bias = {});
}  // namespace plain

}  // namespace trl::kernels
