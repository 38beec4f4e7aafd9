// Picks rows of a tensor, such as the last tokens of the sequences of a batch.
#pragma once
#include "kernels/kernels.h"

namespace trl::kernels {

// x: [n, ...] -> the given rows in the given order, in ATen's operators on every path; a row that is picked
// twice gets the sum of both gradients.
at::Tensor pick_rows(const at::Tensor& x, const std::vector<int32_t>& rows);

}  // namespace trl::kernels
