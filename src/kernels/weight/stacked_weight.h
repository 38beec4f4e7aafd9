// Matrices of one shape as one weight: experts, each encoded by itself.
#pragma once
#include <memory>
#include <vector>

#include "tensor/parameter/encoded.h"

namespace trl::kernels {

// shape: [experts, rows, columns]. matrices: of one size and in their order, one of each expert or several,
// which are one below the other.
std::shared_ptr<const tensor::Encoded> stacked_weight(
    std::vector<int64_t> shape, std::vector<std::shared_ptr<const tensor::Encoded>> matrices);

}  // namespace trl::kernels
