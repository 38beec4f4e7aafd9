#include "optim/flat.h"

#include "tensor/counted.h"
#include "tensor/parallel.h"

namespace trl::optim {

namespace {

constexpr int64_t kAlignment = 32;  // elements: 64 bytes of the smaller type
constexpr int64_t kBytesPerPart = 1 << 20;

int64_t padded(int64_t count) { return (count + kAlignment - 1) / kAlignment * kAlignment; }

void clear(const at::Tensor& buffer) {
  if (!buffer.is_cpu()) {
    buffer.zero_();
    return;
  }
  char* bytes = static_cast<char*>(buffer.data_ptr());
  tensor::parallel_for(static_cast<int64_t>(buffer.nbytes()), kBytesPerPart, [&](int64_t begin, int64_t end) {
    std::memset(bytes + begin, 0, static_cast<size_t>(end - begin));
  });
}

}  // namespace

void FlatViews::zero() {
  for (const at::Tensor& buffer : buffers) clear(buffer);
}

FlatViews flat_views(const std::vector<tensor::Parameter*>& parameters, base::MemoryKind kind) {
  FlatViews flat;
  flat.views.resize(parameters.size());
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    int64_t count = 0;
    for (const tensor::Parameter* p : parameters) {
      if (p->dtype() == type) count += padded(p->count());
    }
    if (count == 0) continue;
    const at::Tensor buffer = tensor::empty({count}, type, kind, parameters[0]->device());
    int64_t begin = 0;
    for (size_t i = 0; i < parameters.size(); ++i) {
      const tensor::Parameter& parameter = *parameters[i];
      if (parameter.dtype() != type) continue;
      flat.views[i] = buffer.narrow(0, begin, parameter.count()).view(parameter.shape());
      begin += padded(parameter.count());
    }
    flat.buffers.push_back(buffer);
  }
  flat.zero();
  return flat;
}

}  // namespace trl::optim
