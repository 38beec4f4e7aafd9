#include "kernels/gemm/int8_products.h"

#include "kernels/op.h"
#include "tensor/threads/in_parts.h"

namespace trl::kernels {

Int8Products::Codes Int8Products::codes_of(const Projection& p) {
  const int64_t out = p.out(), in = p.in();
  const tensor::Reading reading = p.weight->read();
  at::Tensor rows = *reading;
  if (p.transposed) {
    rows = tensor::empty({out, in}, reading->scalar_type(), MemoryKind::workspace);
    tensor::copy_in_parts(rows, reading->t());
  }
  Codes codes{tensor::empty({out, in}, at::kChar, MemoryKind::workspace),
              tensor::empty({out}, at::kFloat, MemoryKind::weights)};
  tensor::parallel_for(out, 16, [&](int64_t begin, int64_t end) {
    cpu().to_int8({at_byte(rows, begin * in), nullptr, codes.values.data_ptr<int8_t>() + begin * in,
                   codes.steps.data_ptr<float>() + begin, end - begin, in, type_of(rows)});
  });
  return codes;
}

Int8Products::Int8Products(const Projection& p) : Int8Products(p, codes_of(p)) {}

Int8Products::Int8Products(const Projection& p, const Codes& codes)
    : weight_(p.weight), steps_(codes.steps), forward_(codes.values.t()), backward_(codes.values) {}

}  // namespace trl::kernels
