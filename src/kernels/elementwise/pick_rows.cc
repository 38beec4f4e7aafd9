#include "kernels/elementwise/pick_rows.h"

#include "kernels/op.h"
#include "tensor/memory/rehearsal.h"

namespace trl::kernels {

namespace {

at::Tensor index_on(const std::vector<int32_t>& rows, at::Device device) {
  const std::vector<int64_t> wide(rows.begin(), rows.end());
  return at::tensor(wide, at::kLong).to(device);
}

at::Tensor picked(const at::Tensor& x, const std::vector<int32_t>& rows) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape[0] = std::ssize(rows);
  at::Tensor out = tensor::empty(shape, x.scalar_type(), MemoryKind::activations, x.device());
  if (tensor::Rehearsal::current() == nullptr) at::index_select_out(out, x, 0, index_on(rows, x.device()));
  return out;
}

struct Picking {
  std::vector<int32_t> rows;
  std::vector<int64_t> shape;
};
struct Pick : torch::autograd::Function<Pick> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const std::vector<int32_t>& rows) {
    keep(context, Picking{rows, x.sizes().vec()});
    return picked(x, rows);
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const auto& from = kept<Picking>(context);
    at::Tensor dx =
        tensor::zeros(from.shape, grads[0].scalar_type(), MemoryKind::activations, grads[0].device());
    if (tensor::Rehearsal::current() == nullptr) dx.index_add_(0, index_on(from.rows, dx.device()), grads[0]);
    return {dx, {}};
  }
};

}  // namespace

at::Tensor pick_rows(const at::Tensor& x, const std::vector<int32_t>& rows) {
  need(x.dim() > 0 && x.is_contiguous(), "pick_rows", "contiguous rows are needed");
  return records(x) ? Pick::apply(x, rows) : picked(x, rows);
}

}  // namespace trl::kernels
