// oneDNN matmul primitives, kept by shape, and the means to run one of them on a thread.
#pragma once
#include <list>
#include <map>
#include <memory>
#include <mutex>

#include "kernels/gemm/gemm.h"
#include "kernels/gemm/gemm_threads.h"

namespace trl::kernels {

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
