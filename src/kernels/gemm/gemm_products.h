// oneDNN matmul primitives, kept by shape, and runs of them: each piece on one thread, with oneDNN limited to
// that thread. oneDNN takes its number of threads from OpenMP, when a primitive is made and when it runs.
#pragma once
#include <pthread.h>

#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>

#include "base/threads/thread_pool.h"
#include "kernels/gemm/gemm.h"
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
// work memory for each thread. Within body no signal is handled: oneDNN's products in float32 use the stack
// pointer for work memory on the heap, and a handler without a stack of its own would write over what is
// below that.
template <typename Body>
void each_on_a_thread(int64_t count, int64_t bytes, const dnnl::engine& engine, const Body& body) {
  const int64_t width = std::min<int64_t>(tensor::threads(), count);
  bytes = round_up(bytes, 4096);
  at::Tensor work;
  if (bytes > 0) work = tensor::empty({width * bytes}, at::kByte, MemoryKind::workspace);
  std::atomic<int64_t> next{0}, place{0};
  std::atomic<bool> failed{false};
  const tensor::OpenMpThreads narrow(1);
  const pthread_t caller = pthread_self();
  tensor::parallel_for(width, 1, [&](int64_t, int64_t) {
    const int64_t mine = place.fetch_add(1);
    const bool takes_signals = pthread_equal(pthread_self(), caller) != 0;  // those of the crew take none
    uint8_t* const memory_at = bytes > 0 ? work.data_ptr<uint8_t>() + mine * bytes : nullptr;
    try {
      dnnl::stream stream(engine);
      for (int64_t i = next.fetch_add(1); i < count && !base::stopped(); i = next.fetch_add(1)) {
        std::optional<base::NoSignals> quiet;
        if (takes_signals) quiet.emplace();
        body(static_cast<size_t>(i), stream, memory_at);
      }
    } catch (...) {
      failed = true;  // an exception must not leave a parallel region
    }
  });
  if (failed) fail(Status::internal, "oneDNN: a matrix product failed");
}

struct Product {
  dnnl::matmul primitive;
  dnnl::memory::desc a, b, c, scratch;
  bool supported = false;  // false: this machine's oneDNN has no such product
  int64_t scratch_bytes() const { return static_cast<int64_t>(scratch.get_size()); }
};

// The primitives of the process; any thread may use them.
class Products {
 public:
  // The primitive for c = a b, or c += a b. Ignores the addresses of the matrices.
  std::shared_ptr<const Product> get(const Matrix& a, const Matrix& b, at::ScalarType c_type,
                                     int64_t c_stride, bool accumulate);
  // Keeps enough primitives for this number of different products that are computed together. Experts have a
  // shape each; apart from those there are few shapes that recur, and primitives for lengths that do not
  // recur would fill a larger store.
  void keep_for(size_t together);
  const dnnl::engine& engine() const { return engine_; }

 private:
  using Key = std::array<int64_t, 7>;  // m, n, k, strides of a, b, c, then flags
  std::shared_ptr<const Product> make(const Matrix& a, const Matrix& b, at::ScalarType c_type,
                                      int64_t c_stride, bool accumulate);

  std::mutex mutex_;
  size_t kept_ = 128;
  dnnl::engine engine_ = silent_engine();
  std::list<std::pair<Key, std::shared_ptr<const Product>>> recent_;
  std::map<Key, decltype(recent_)::iterator> index_;
};
Products& products();

Matrix part(const Matrix& x, int64_t row, int64_t rows, int64_t col, int64_t cols);
inline char* bytes_of(const Matrix& x) { return static_cast<char*>(const_cast<void*>(x.data)); }

// A product that one thread computes.
struct Step {
  std::shared_ptr<const Product> product;
  char *a, *b;
};
// scratch: scratch_bytes() of the product, or null if that is 0.
void run_step(const Step& step, void* c, const dnnl::engine& engine, dnnl::stream& stream, void* scratch);

}  // namespace trl::kernels
