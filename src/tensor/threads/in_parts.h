// Splits ATen's operators, which run on one thread during a call, so that those on large tensors use several
// threads.
#pragma once
#include <ATen/ATen.h>

#include "tensor/threads/parallel.h"

namespace trl::tensor {

// Calls op(x, others ...), elementwise and in place, for ranges of rows of all of them. op must not throw. It
// is not interrupted, and in a rehearsal it is not called.
template <typename Op, typename... Tensors>
void in_parts(const Op& op, const at::Tensor& x, const Tensors&... others) {
  constexpr int64_t kElements = 32768;  // ATen's grain
  if (!x.is_cpu() || x.dim() == 0 || x.numel() == 0) return op(x, others...);
  if (Rehearsal::current() != nullptr) return;
  const int64_t rows = x.size(0), parts = std::min<int64_t>({threads(), rows, x.numel() / kElements + 1});
  on_crew(parts, [&](int64_t i) {
    const int64_t begin = rows * i / parts, count = rows * (i + 1) / parts - begin;
    op(x.narrow(0, begin, count), others.narrow(0, begin, count)...);
  });
}

inline void copy_in_parts(const at::Tensor& to, const at::Tensor& from) {
  in_parts([](const at::Tensor& to_rows, const at::Tensor& rows) { to_rows.copy_(rows); }, to, from);
}

}  // namespace trl::tensor
