// An encoded weight with an adapter's low-rank terms merged into it, for saving a merged model.
#pragma once
#include <memory>

#include "kernels/kernels.h"
#include "tensor/parameter/encoded.h"

namespace trl::kernels {

// Row by row w + scale b a, with magnitudes if it has them (not for a transposed weight), from the numbers
// that the weight of `p` decodes to in its dtype; a stack of experts gets the terms of each (expert_terms.h).
// The terms are copied and the weight's blocks shared, so `p` may change.
std::shared_ptr<const tensor::Encoded> merged_weight(const Projection& p);

}  // namespace trl::kernels
