// Matrices of one shape as one weight: experts, each encoded separately.
#pragma once
#include <memory>
#include <vector>

#include "tensor/parameter/encoded.h"

namespace trl::kernels {

// shape: [experts, rows, columns]. matrices: of one size and sorted by expert; each expert has one, or
// several that are stacked by rows.
std::shared_ptr<const tensor::Encoded> stacked_weight(
    std::vector<int64_t> shape, std::vector<std::shared_ptr<const tensor::Encoded>> matrices);

}  // namespace trl::kernels
