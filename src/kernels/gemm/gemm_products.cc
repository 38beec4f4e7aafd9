#include "kernels/gemm/gemm_products.h"

#include <algorithm>

#include "base/error.h"
#include "engine/blas.h"
#include "tensor/process_state.h"

namespace trl::kernels {

namespace {

using dnnl::memory;

constexpr size_t kOfEach = 16, kMost = 1024;

memory::data_type dnnl_type(at::ScalarType type) {
  if (type == at::kFloat) return memory::data_type::f32;
  if (type == at::kBFloat16) return memory::data_type::bf16;
  fail(Status::unsupported, "a matrix product of type {}: float32 and bfloat16 are supported",
       c10::toString(type));
}

memory::desc describe(int64_t rows, int64_t cols, int64_t stride, bool transposed, at::ScalarType type) {
  const memory::dims strides = transposed ? memory::dims{1, stride} : memory::dims{stride, 1};
  return memory::desc({rows, cols}, dnnl_type(type), strides);
}

}  // namespace

std::shared_ptr<const Product> Products::get(const Matrix& a, const Matrix& b, at::ScalarType c_type,
                                             int64_t c_stride, bool accumulate) {
  const int64_t flags = (a.type == at::kFloat) | (c_type == at::kFloat) << 1 | a.transposed << 2 |
                        b.transposed << 3 | accumulate << 4;
  const Key key{a.rows, b.cols, a.cols, a.stride, b.stride, c_stride, flags};
  std::lock_guard lock(mutex_);
  if (const auto found = index_.find(key); found != index_.end()) {
    recent_.splice(recent_.begin(), recent_, found->second);
    return recent_.front().second;
  }
  const tensor::OpenMpThreads narrow(1);
  recent_.emplace_front(key, make(a, b, c_type, c_stride, accumulate));
  index_[key] = recent_.begin();
  if (recent_.size() > kept_) {
    index_.erase(recent_.back().first);
    recent_.pop_back();
  }
  return recent_.front().second;
}

void Products::keep_for(size_t together) {
  const std::lock_guard lock(mutex_);
  kept_ = std::clamp(kOfEach * together, kept_, kMost);
}

std::shared_ptr<const Product> Products::make(const Matrix& a, const Matrix& b, at::ScalarType c_type,
                                              int64_t c_stride, bool accumulate) {
  // oneDNN maps less than this for code, and writes it even if it got nothing.
  constexpr size_t kCode = size_t{8} << 20;
  if (!engine::could_map({{kCode, true}}))
    fail(Status::out_of_memory,
         "no address space for the code of a product: {} MB; raise the limit of this process (ulimit -v)",
         kCode >> 20);
  auto product = std::make_shared<Product>();
  product->a = describe(a.rows, a.cols, a.stride, a.transposed, a.type);
  product->b = describe(b.rows, b.cols, b.stride, b.transposed, b.type);
  product->c = describe(a.rows, b.cols, c_stride, false, c_type);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
  const dnnl::matmul::desc operation(product->a, product->b, product->c);
  const dnnl::matmul::primitive_desc chosen(operation, attributes, engine_, /*allow_empty=*/true);
  product->supported = static_cast<bool>(chosen);
  if (product->supported) {
    product->scratch = chosen.scratchpad_desc();
    product->primitive = dnnl::matmul(chosen);
  }
  return product;
}

void leave_primitives_to_host() { onednn_is_shared = true; }

Products& products() { return tensor::process_state<Products>(); }

Matrix part(const Matrix& x, int64_t row, int64_t rows, int64_t col, int64_t cols) {
  const int64_t at = x.transposed ? col * x.stride + row : row * x.stride + col;
  const auto size = static_cast<int64_t>(c10::elementSize(x.type));
  return {static_cast<const char*>(x.data) + at * size, x.type, rows, cols, x.stride, x.transposed};
}

void run_step(const Step& step, void* c, const dnnl::engine& engine, dnnl::stream& stream, void* scratch) {
  const Product& product = *step.product;
  std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, memory(product.a, engine, step.a)},
                                            {DNNL_ARG_WEIGHTS, memory(product.b, engine, step.b)},
                                            {DNNL_ARG_DST, memory(product.c, engine, c)}};
  if (scratch != nullptr) arguments.emplace(DNNL_ARG_SCRATCHPAD, memory(product.scratch, engine, scratch));
  product.primitive.execute(stream, arguments);
  stream.wait();
}

}  // namespace trl::kernels
