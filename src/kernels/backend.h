// The back ends: tables of the ops in ops.def, one of which is chosen for an operand by its device and by the
// path of the thread. `fused_ops` are the kernels for the CPU, `plain` has the same in ATen's own operators.
#pragma once
#include "kernels/experts/experts.h"
#include "kernels/head/divergence.h"
#include "kernels/head/head.h"
#include "kernels/kernels.h"
#include "kernels/path.h"

namespace trl::kernels {

struct Backend {
#define TRL_OP(name, parameters, ...) __VA_ARGS__(*name) parameters;
#include "kernels/ops.def"
};

namespace fused_ops {
#define TRL_OP(name, parameters, ...) __VA_ARGS__ name parameters;
#include "kernels/ops.def"
}  // namespace fused_ops

namespace plain {
#define TRL_OP(name, parameters, ...) __VA_ARGS__ name parameters;
#include "kernels/ops.def"
}  // namespace plain

const Backend& backend(at::Device device);
inline const Backend& backend(const at::Tensor& x) { return backend(x.device()); }

}  // namespace trl::kernels
