// Weights that are read from elsewhere: a matrix in a safetensors file or in memory, experts that are encoded
// separately, and a weight with an adapter's terms merged into it.
#pragma once
#include <memory>
#include <vector>

#include "io/safetensors.h"
#include "kernels/kernels.h"
#include "tensor/parameter/encoded.h"

namespace trl::kernels {

// A matrix in a safetensors file, read in place. view: a matrix of type f32, bf16, f16 or f64; its file must
// outlive the result.
std::shared_ptr<const tensor::Encoded> stored_weight(const io::TensorView& view);

// A bfloat16 matrix in memory, for a weight of wider numbers whose products are in bfloat16.
std::shared_ptr<const tensor::Encoded> bfloat16_weight(const at::Tensor& values);

// The view as a tensor of its own type, f32 or bf16, which must not be written to.
at::Tensor stored_tensor(const io::TensorView& view);

// Matrices of one shape as one weight. shape: [experts, rows, columns]. matrices: of one size and sorted by
// expert; each expert has one, or several that are stacked by rows.
std::shared_ptr<const tensor::Encoded> stacked_weight(
    std::vector<int64_t> shape, std::vector<std::shared_ptr<const tensor::Encoded>> matrices);

// An encoded weight with an adapter's low-rank terms merged into it, for saving a merged model: row by row w
// + scale b a, with magnitudes if it has them (not for a transposed weight), from the numbers that the weight
// of `p` decodes to in its dtype; a stack of experts gets the terms of each (expert_terms.h). The terms are
// copied and the weight's blocks shared, so `p` may change.
std::shared_ptr<const tensor::Encoded> merged_weight(const Projection& p);

}  // namespace trl::kernels
