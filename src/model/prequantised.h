// Weights that bitsandbytes quantised before they were saved.
#pragma once
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "model/weights.h"
#include "tensor/parameter/encoded.h"

namespace trl::model {

// Reads the weight "<module>.weight" [rows, columns] if the source has it in 4-bit blocks
// ("<module>.weight.absmax", ".quant_map", ".quant_state.bitsandbytes__nf4" ...) or int8 rows
// ("<module>.SCB"); null: it has neither. used: gets the names of the tensors that were read. Throws
// Error(format), naming the tensor, if they contradict each other.
std::shared_ptr<const tensor::Encoded> prequantised(const WeightSource& source, const std::string& name,
                                                    const std::vector<int64_t>& shape,
                                                    std::set<std::string>& used);

}  // namespace trl::model
