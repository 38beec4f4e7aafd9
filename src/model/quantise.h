// Quantises weights into the blocks of bitsandbytes while a model is opened.
#pragma once
#include <ATen/ATen.h>

#include <memory>
#include <string>

#include "config/quantization.h"
#include "tensor/parameter/encoded.h"

namespace trl::model {

// values: [rows, columns], float32 or bfloat16, on the host. place: the stored tensor, for messages. Throws
// Error(format) if a value is not finite, or out of float16's range for int8.
std::shared_ptr<const tensor::Encoded> quantised(const std::string& place, const at::Tensor& values,
                                                 const config::Quantization& quantization);

}  // namespace trl::model
