// The magnitudes of DoRA: each output of a projection is scaled so that its row of the weight, with the
// low-rank terms, gets a given length.
#pragma once
#include "kernels/op.h"

namespace trl::kernels {

// The norms of the rows of weight + scale b a, summed in double: float32 [out].
at::Tensor row_norms(const Projection& p);

// Merges the terms and magnitudes into the weight; a table is taken as a transposed weight.
void merge(const Projection& p);

// Multiplies y - bias by the gain, column by column, in y's type; a gain of 1 leaves every bit of y. gain:
// float32 [out]; bias: of any type, or undefined.
at::Tensor with_gain(const at::Tensor& y, const at::Tensor& gain, const at::Tensor& bias);

// The sums of the columns of dy (y - bias): float32 [out], the gradient of the gain.
at::Tensor gain_gradient(const at::Tensor& dy, const at::Tensor& y, const at::Tensor& bias);

}  // namespace trl::kernels
