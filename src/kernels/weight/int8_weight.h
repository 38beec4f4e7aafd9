// A weight in rows of 8-bit codes, as in LLM.int8().
#pragma once
#include <memory>
#include <vector>

#include "tensor/parameter/encoded.h"

namespace trl::kernels {

// codes: int8, of the shape; absmax: float32, one for each row
std::shared_ptr<const tensor::Encoded> int8_weight(std::vector<int64_t> shape, at::Tensor codes,
                                                   at::Tensor absmax);

}  // namespace trl::kernels
