// Runs products: each piece on one thread, with oneDNN limited to that thread. oneDNN takes its number of
// threads from OpenMP, when a primitive is made and when it runs.
#pragma once
#include <atomic>
#include <oneapi/dnnl/dnnl.hpp>

#include "kernels/op.h"
#include "tensor/threads/openmp_threads.h"

namespace trl::kernels {

inline std::atomic<bool> onednn_is_shared{false};  // leave_primitives_to_host()

// The engine, set up before its first use: ONEDNN_VERBOSE and ONEDNN_JIT_DUMP are meant for the host's own
// work. oneDNN's own cache of primitives would hold a thousand of them, most for lengths that do not recur.
inline dnnl::engine silent_engine() {
  dnnl::set_verbose(0);
  dnnl::set_jit_dump(0);
  constexpr int kUsual = 1024, kKept = 128;  // a number other than the default was set on purpose
  if (!onednn_is_shared && dnnl::get_primitive_cache_capacity() == kUsual)
    dnnl::set_primitive_cache_capacity(kKept);
  return dnnl::engine(dnnl::engine::kind::cpu, 0);
}

// Calls body(i, stream, memory) for each i in [0, count), each taken by the next free thread, with `bytes` of
// work memory for each thread.
template <typename Body>
void each_on_a_thread(int64_t count, int64_t bytes, const dnnl::engine& engine, const Body& body) {
  const int64_t width = std::min<int64_t>(tensor::threads(), count);
  bytes = round_up(bytes, 4096);
  at::Tensor work;
  if (bytes > 0) work = tensor::empty({width * bytes}, at::kByte, MemoryKind::workspace);
  std::atomic<int64_t> next{0}, place{0};
  std::atomic<bool> failed{false};
  const tensor::OpenMpThreads narrow(1);
  tensor::parallel_for(width, 1, [&](int64_t, int64_t) {
    const int64_t mine = place.fetch_add(1);
    uint8_t* const memory_at = bytes > 0 ? work.data_ptr<uint8_t>() + mine * bytes : nullptr;
    try {
      dnnl::stream stream(engine);
      for (int64_t i = next.fetch_add(1); i < count && !base::stopped(); i = next.fetch_add(1)) {
        body(static_cast<size_t>(i), stream, memory_at);
      }
    } catch (...) {
      failed = true;  // an exception must not leave a parallel region
    }
  });
  if (failed) fail(Status::internal, "oneDNN: a matrix product failed");
}

}  // namespace trl::kernels
