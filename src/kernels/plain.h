// Functions that the ops of the back end `plain` share: ATen's own operators, any device, any libtorch,
// gradients by autograd. kernels.h documents the ops; ids, targets and borders of documents are on the host
// whatever the device. Intermediate values are libtorch's own and not counted.
#pragma once
#include "kernels/backend.h"
#include "kernels/cpu/cpu_kernels.h"

namespace trl::kernels::plain {

// The weight as part of x's graph: its gradient is added through tensor::Use. x: any tensor of the graph.
at::Tensor weight(const at::Tensor& x, Parameter& w);
// The type of statistics: float32, or double if x is double.
inline at::ScalarType wide_type(const at::Tensor& x) {
  return at::promote_types(x.scalar_type(), at::kFloat);
}

// x w^T + bias, both of one type. On a processor whose oneDNN has no bfloat16 (AVX2), ATen sums such products
// in bfloat16 itself: on the host they are summed in float32 and rounded once.
at::Tensor product(const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias = {});
// The factors of dropout for the elements of these rows and columns: float32 [rows, columns], on the host.
struct Range {
  int64_t begin, end;
};
at::Tensor dropout_factors(const Dropout& dropout, Range rows, Range columns);

}  // namespace trl::kernels::plain
