// Normal random numbers as torch 2.15 draws them.
#pragma once
#include <ATen/ATen.h>

namespace trl::model {

// Fills values (float32, contiguous, on the CPU) like normal_(0, deviation) on a tensor of this type and
// number of elements, before it rounds to the type.
void draw_normal(const at::Tensor& values, at::ScalarType type, double deviation, at::Generator generator);

}  // namespace trl::model
