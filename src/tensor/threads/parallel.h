// The only parallel_for of kernels, and its width. Results never depend on the number of threads.
#pragma once
#include <ATen/ATen.h>
#include <algorithm>
#include <cstdint>

#include "base/interrupt.h"
#include "tensor/memory/rehearsal.h"
#include "tensor/parts.h"
#include "tensor/threads/crew.h"

namespace trl::tensor {

// Sets the number of threads for every parallel region of the engine from now on; < 1: as many as the
// process may use.
void set_threads(int threads);
int threads();

// Calls body(begin, end) over [0, count), in contiguous parts of at least grain. body must not throw. A long
// body may return early if base::stopped(): parallel_for itself checks before and after it, and then throws.
// In a rehearsal the body is not called.
template <typename Body>
void parallel_for(int64_t count, int64_t grain, const Body& body) {
  base::poll();
  if (Rehearsal::current() != nullptr) return;
  const Timed timed(Part::elementwise);
  const int64_t parts = std::min<int64_t>(threads(), (count + grain - 1) / (grain > 0 ? grain : 1));
  if (parts <= 1) {
    if (count > 0) body(int64_t{0}, count);
    return base::poll();
  }
  base::Interrupt* const interrupt = base::thread_interrupt();
  on_crew(parts, [&](int64_t i) {
    const base::InterruptScope scope(interrupt);
    body(count * i / parts, count * (i + 1) / parts);
  });
  base::poll();
}

// The same for long loops: each thread checks whether to continue after every `slice` of its part.
template <typename Body>
void parallel_slices(int64_t count, int64_t slice, const Body& body) {
  parallel_for(count, slice, [&](int64_t begin, int64_t end) {
    for (; begin < end && !base::stopped(); begin += slice) body(begin, std::min(end, begin + slice));
  });
}

// Splits ATen's operators, which run on one thread during a call, so that those on large tensors use several
// threads: calls op(x, others ...), elementwise and in place, for ranges of rows of all of them. op must not
// throw. It is not interrupted, and in a rehearsal it is not called.
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
