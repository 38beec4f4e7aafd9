// A matrix in a safetensors file, read in place; or its bfloat16 numbers in memory.
#pragma once
#include <memory>

#include "io/safetensors.h"
#include "tensor/parameter/encoded.h"

namespace trl::kernels {

// view: a matrix of type f32, bf16, f16 or f64; its file must outlive the result.
std::shared_ptr<const tensor::Encoded> stored_weight(const io::TensorView& view);

// A bfloat16 matrix in memory, for a weight of wider numbers whose products are in bfloat16.
std::shared_ptr<const tensor::Encoded> narrow_weight(const at::Tensor& values);

// The view as a tensor of its own type, f32 or bf16, which must not be written to.
at::Tensor stored_tensor(const io::TensorView& view);

}  // namespace trl::kernels
