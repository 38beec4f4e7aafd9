#include "kernels/backend.h"

namespace trl::kernels {

namespace {

constexpr Backend kFused = {
#define TRL_OP(name, ...) .name = fused_ops::name,
#include "kernels/ops.def"
};
constexpr Backend kPlain = {
#define TRL_OP(name, ...) .name = plain::name,
#include "kernels/ops.def"
};

}  // namespace

const Backend& backend(at::Device device) { return fused(device) ? kFused : kPlain; }

}  // namespace trl::kernels
