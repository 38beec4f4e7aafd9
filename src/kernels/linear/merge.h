// The weight of a projection with the changes of its adapter in it.
#pragma once
#include "kernels/op.h"

namespace trl::kernels {

// The magnitudes of DoRA scale each output of a projection, so that its row of the weight, with the low-rank
// terms, gets a given length. Returns the norms of the rows of weight + scale b a, summed in double: float32
// [out].
at::Tensor row_norms(const Projection& p);

// Merges the terms and magnitudes into the weight; a table is taken as a transposed weight.
void merge(const Projection& p);

}  // namespace trl::kernels
