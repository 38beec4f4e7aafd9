// Products of rows with weights by the kernels of the table, instead of oneDNN: the bits of a row depend only
// on it, the weight and the instruction set.
#pragma once
#include <vector>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/gemm/gemm.h"
#include "kernels/weight/narrow_weight.h"
#include "tensor/parameter/parameter.h"

namespace trl::kernels {

struct RowProduct {
  Skinny args;
  // Instead of args.w: the rows from first_row on, as many as there are outputs.
  const tensor::Encoded* encoded = nullptr;
  int64_t first_row = 0, outputs = 0;
  const NarrowWeight* narrow = nullptr;  // instead of args.w: its codes
};
// The type that the numbers of a weight in codes have where they are multiplied with rows of type x.
Type operand_type(const tensor::Encoded* encoded, Type x);

// Computes all of them, divided among the threads together.
void multiply_rows(std::vector<RowProduct> all);
// The same for products whose A is not transposed.
void multiply_rows(at::ArrayRef<Multiplication> all);

}  // namespace trl::kernels
