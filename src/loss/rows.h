// Rows of a matrix by index, differentiable and counted.
#pragma once
#include <ATen/ATen.h>

namespace trl::loss {

// x: [rows, width] contiguous; index: int64 [n], increasing, each row once -> [n, width]
at::Tensor select_rows(const at::Tensor& x, const at::Tensor& index);

}  // namespace trl::loss
