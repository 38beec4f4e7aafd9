// An encoded weight with the low-rank terms of an adapter in it: what is saved of a merged model.
#pragma once
#include <memory>

#include "kernels/kernels.h"
#include "tensor/parameter/encoded.h"

namespace trl::kernels {

// Row by row w + scale b a, with its magnitudes where it has them (of no transposed weight), of the numbers
// that the weight of `p` decodes to in its dtype; a stack of experts gets the terms of each (expert_terms.h).
// The terms are copied and the weight's blocks shared, so that `p` may change.
std::shared_ptr<const tensor::Encoded> merged_weight(const Projection& p);

}  // namespace trl::kernels
