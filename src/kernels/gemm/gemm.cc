#include "kernels/gemm/gemm.h"

#include "kernels/gemm/gemm_products.h"
#include "kernels/gemm/tiles.h"
#include "kernels/weight/row_products.h"

namespace trl::kernels {

namespace {

thread_local bool each_row_by_itself = false, independent_rows = false;

Matrix matrix_of(const at::Tensor& x, bool transposed) {
  TORCH_CHECK(x.dim() == 2 && x.stride(1) == 1, "gemm: a row-major matrix is needed");
  const int64_t rows = x.size(transposed ? 1 : 0);
  const int64_t cols = x.size(transposed ? 0 : 1);
  return {x.data_ptr(), x.scalar_type(), rows, cols, x.stride(0), transposed};
}

}  // namespace

void note_product(tensor::Job job, const Matrix& a, int64_t columns) {
  tensor::Rehearsal* const rehearsal = tensor::Rehearsal::current();
  if (rehearsal == nullptr) return;
  rehearsal->note(
      {job, {}, a.rows, columns, a.cols, static_cast<int64_t>(c10::elementSize(a.type)), a.transposed},
      2.0 * static_cast<double>(a.rows) * static_cast<double>(columns) * static_cast<double>(a.cols));
}

IndependentRows::IndependentRows(bool wanted)
    : before_(std::exchange(independent_rows, wanted || independent_rows)) {}
IndependentRows::~IndependentRows() { independent_rows = before_; }
bool IndependentRows::active() { return independent_rows; }

EachRowByItself::EachRowByItself() : before_(std::exchange(each_row_by_itself, true)) {}
EachRowByItself::~EachRowByItself() { each_row_by_itself = before_; }
bool EachRowByItself::active() { return each_row_by_itself; }

void gemm(at::ArrayRef<Multiplication> all, size_t of) {
  const tensor::Timed timed(tensor::Part::gemm);
  for (const Multiplication& m : all) {
    if (m.a.rows == 0 || m.b.cols == 0) continue;
    note_product(tensor::Job::product, m.a, m.b.cols);
    for (const Factors& f : m.more) note_product(tensor::Job::product, f.a, f.b.cols);
  }
  if (independent_rows) return multiply_rows(all);
  multiply_in_tiles(all, of);
}

void gemm(const Matrix& a, const Matrix& b, void* c, at::ScalarType c_type, int64_t c_stride, float beta) {
  gemm(Multiplication{a, b, c, c_type, c_stride, beta});
}

Factors matrices(const TensorFactors& product) {
  return {matrix_of(product.a, product.a_transposed), matrix_of(product.b, product.b_transposed)};
}

void gemm(at::ArrayRef<TensorFactors> sum, at::Tensor& c, float beta) {
  TORCH_CHECK(c.dim() == 2 && c.stride(1) == 1, "gemm: a row-major result is needed");
  const bool wide =
      std::ranges::any_of(sum, [](const TensorFactors& f) { return f.a.scalar_type() == at::kFloat; });
  if (wide && c.scalar_type() == at::kBFloat16) {  // oneDNN has no such product
    at::Tensor copy = tensor::empty(c.sizes(), at::kFloat, MemoryKind::workspace);
    const bool add = beta != 0.0f && sum.front().a_transposed;  // at the end
    if (beta != 0.0f && !add) {
      tensor::parallel_for(c.size(0), 16, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r)
          cpu().convert(at_byte(c, r * c.stride(0)), Type::bf16, at_byte(copy, r * c.size(1)), Type::f32,
                        c.size(1));
      });
    }
    gemm(sum, copy, add ? 0.0f : beta);
    return tensor::parallel_for(c.size(0), 16, [&](int64_t begin, int64_t end) {
      round_rows(copy.data_ptr<float>() + begin * c.size(1), end - begin, c.size(1),
                 at_byte(c, begin * c.stride(0)), c.stride(0), add);
    });
  }
  const Factors first = matrices(sum.front());
  Multiplication m{first.a, first.b, c.data_ptr(), c.scalar_type(), c.stride(0), beta};
  for (const TensorFactors& product : sum.slice(1)) m.more.push_back(matrices(product));
  gemm(m);
}

void gemm(const at::Tensor& a, bool a_transposed, const at::Tensor& b, bool b_transposed, at::Tensor& c,
          float beta) {
  gemm(TensorFactors{a, a_transposed, b, b_transposed}, c, beta);
}

std::string onednn_version() {
  const dnnl_version_t& version = *dnnl_version();
  return fmt::format("{}.{}.{}", version.major, version.minor, version.patch);
}

}  // namespace trl::kernels
