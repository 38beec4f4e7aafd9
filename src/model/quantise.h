// Weights into the blocks of bitsandbytes, while a model is opened.
#pragma once
#include <ATen/ATen.h>

#include <memory>
#include <string>

#include "config/quantization.h"
#include "tensor/parameter/encoded.h"

namespace trl::model {

// values: [rows, columns], float32 or bfloat16, on the host. place: for messages, of the stored tensor.
// Throws Error(format) where a value is not finite, or none of float16 for int8.
std::shared_ptr<const tensor::Encoded> quantised(const std::string& place, const at::Tensor& values,
                                                 const config::Quantization& quantization);

}  // namespace trl::model
