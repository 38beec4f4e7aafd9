// Weights in the blocks of bitsandbytes: quantised while a model is opened, or before they were saved.
#pragma once
#include <ATen/ATen.h>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "config/model_options.h"
#include "model/weights/weights.h"
#include "tensor/parameter/encoded.h"

namespace trl::model {

// Quantises a weight. values: [rows, columns], float32 or bfloat16, on the host. place: the stored tensor,
// for messages. Throws Error(format) if a value is not finite, or out of float16's range for int8.
std::shared_ptr<const tensor::Encoded> quantised(const std::string& place, const at::Tensor& values,
                                                 const config::Quantization& quantization);

// Reads the weight "<module>.weight" [rows, columns] if the source has it in 4-bit blocks
// ("<module>.weight.absmax", ".quant_map", ".quant_state.bitsandbytes__nf4" ...) or int8 rows
// ("<module>.SCB"); null: it has neither. used: gets the names of the tensors that were read. Throws
// Error(format), naming the tensor, if they contradict each other.
std::shared_ptr<const tensor::Encoded> prequantised(const WeightSource& source, const std::string& name,
                                                    const std::vector<int64_t>& shape,
                                                    std::set<std::string>& used);

}  // namespace trl::model
