#include "model/weights/initial_values.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/error.h"
#include "base/interrupt.h"
#include "tensor/memory/counted.h"
#include "tensor/memory/libtorch_memory.h"
#include "tensor/memory/rehearsal.h"
#include "tensor/threads/openmp_threads.h"
#include "tensor/threads/parallel.h"
#include "tensor/threads/width.h"

// With sanitizers gcc 12 gives a false warning about the default argument of linalg_svd.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace trl::model {

namespace {

using config::LoraInit;

constexpr int64_t kDraws = 16;             // numbers that torch draws together
constexpr int64_t kPieceRows = 4096;       // rows converted to float32 at once
constexpr int64_t kPieceDraws = 1 << 20;   // a multiple of kDraws
constexpr double kCovarianceScale = 1e-9;  // transformers'
constexpr int64_t kFloatBytes = 4;
constexpr int64_t kLapackBlock = 32;  // columns that LAPACK works on together
constexpr int64_t kBlasDepth = 384;   // rows of a right matrix that OpenBLAS copies together, at most

at::Tensor float_rows(const at::Tensor& weight, int64_t begin) {
  base::poll();
  return weight.slice(0, begin, std::min(begin + kPieceRows, weight.size(0))).to(at::kFloat);
}

at::Tensor mean_row(const at::Tensor& weight) {
  at::Tensor sum = at::zeros({weight.size(1)}, at::kDouble);
  for (int64_t row = 0; row < weight.size(0); row += kPieceRows)
    sum += float_rows(weight, row).sum(0, false, at::kDouble);
  return (sum / weight.size(0)).to(at::kFloat);
}

at::Tensor covariance(const at::Tensor& weight, const at::Tensor& mean) {
  at::Tensor sum = at::zeros({weight.size(1), weight.size(1)}, at::kFloat);
  for (int64_t row = 0; row < weight.size(0); row += kPieceRows) {
    const at::Tensor centered = float_rows(weight, row) - mean;
    sum.addmm_(centered.t(), centered);
  }
  return sum / weight.size(0);
}

// Returns the bytes that libtorch takes to draw new rows: for the covariance with a piece of rows and that
// piece centered, for its factor, or for the noise and the rows.
int64_t new_rows_bytes(const at::Tensor& weight, int64_t rows) {
  const int64_t width = weight.size(1), square = width * width;
  const int64_t piece = std::min(kPieceRows, weight.size(0)) * width;
  return kFloatBytes * std::max({square + 2 * piece, 3 * square, square + 2 * rows * width});
}

// kaiming_uniform_ with a = sqrt(5), as in nn.Linear: uniform within 1 / sqrt(in).
at::Tensor& uniform(at::Tensor& matrix, int64_t in, const at::Generator& generator) {
  const double gain = std::sqrt(2.0 / (1 + 5));
  const double bound = std::sqrt(3.0) * (gain / std::sqrt(static_cast<double>(in)));
  return matrix.uniform_(-bound, bound, generator);
}

at::Tensor normal(at::IntArrayRef shape, const at::Generator& generator) {
  return at::empty(shape, at::kFloat).normal_(0, 1, generator);
}

struct Decomposition {
  at::Tensor u, s, v;  // weight is approximately u diag(s) v
};

// Halko et al. 2009, algorithms 4.4 and 5.1, as in torch.svd_lowrank.
Decomposition truncated(const at::Tensor& weight, int64_t rank, int64_t iterations,
                        const at::Generator& generator) {
  const bool wide = weight.size(0) < weight.size(1);
  const at::Tensor tall = wide ? weight.t() : weight;
  const auto basis = [](const at::Tensor& x) { return std::get<0>(at::linalg_qr(x)); };
  at::Tensor q = basis(tall.matmul(normal({tall.size(1), rank}, generator)));
  for (int64_t i = 0; i < iterations; ++i) q = basis(tall.matmul(basis(tall.t().matmul(q))));
  auto [u, s, v] = at::linalg_svd(q.t().matmul(tall), false);
  u = q.matmul(u);
  return wide ? Decomposition{v.t(), s, u.t()} : Decomposition{u, s, v};
}

// Returns the numbers of a right matrix, in the order of Fortran, that OpenBLAS copies for a product.
int64_t packed(int64_t rows, int64_t columns) { return std::min(rows, kBlasDepth) * columns; }

// Returns the most of these in an SVD of a matrix: a wide one is its LQ, and its vectors are a product with
// Q.
int64_t svd_packed(int64_t rows, int64_t columns) {
  const int64_t k = std::min(rows, columns);
  if (columns >= k * 11 / 6) return packed(k, columns);
  return std::max(packed(k, k), packed(kLapackBlock, columns));
}

// Returns the numbers of sgesdd's work for singular vectors (jobz S): with a QR before it if one side is much
// longer (ilaenv's 11/6), and that of sbdsdc, 3 k k + 4 k.
int64_t svd_work(int64_t rows, int64_t columns) {
  const int64_t k = std::min(rows, columns), longer = std::max(rows, columns);
  const int64_t of_sbdsdc = 3 * k * k + 7 * k;
  if (longer >= k * 11 / 6) return k * k + of_sbdsdc;
  return std::max(of_sbdsdc, 3 * k + (rows + columns) * kLapackBlock);
}

// Returns the numbers that libtorch takes for the SVD of a matrix: a copy of it, the results, and work, of
// which 8 k are integers.
int64_t svd_numbers(int64_t rows, int64_t columns) {
  const int64_t k = std::min(rows, columns);
  return rows * columns + k * (rows + columns) + k + svd_work(rows, columns) + 8 * k;
}

// Returns the numbers that libtorch takes for the QR of a matrix: the results, one of which begins as a copy
// of it, and then either its workspace or the factors that are copied out of the results.
int64_t qr_numbers(int64_t rows, int64_t columns, int64_t rank) {
  const int64_t k = std::min(rows, columns);
  return k * (rows + columns) + std::max(k + columns * kLapackBlock, rank * (rows + columns));
}

// Returns the numbers that truncated() takes in an iteration: both products, q before and after, and the
// shorter basis.
int64_t truncated_numbers(int64_t rows, int64_t columns, int64_t rank) {
  const int64_t shorter = std::min(rows, columns), longer = std::max(rows, columns);
  return 3 * longer * rank + 2 * shorter * rank + rank * (rank + 1 + kLapackBlock);
}

Decomposition exact(const at::Tensor& weight, int64_t rank) {
  const auto [u, s, v] = at::linalg_svd(weight, false);
  return {u.narrow(1, 0, rank), s.narrow(0, 0, rank), v.narrow(0, 0, rank)};
}

}  // namespace

// If the count is not a multiple of 16, the last 16 are drawn again. Before that, float32 has drawn for all
// elements, and bfloat16 only for the whole groups of 16.
void draw_normal(const at::Tensor& values, at::ScalarType type, double deviation,
                 const at::Generator& generator) {
  at::Tensor flat = values.view({-1});
  const int64_t count = flat.numel(), whole = count - count % kDraws;
  if (type == at::kFloat || count < kDraws || count == whole) {
    flat.normal_(0, deviation, generator);
    return;
  }
  flat.narrow(0, 0, whole).normal_(0, deviation, generator);
  flat.narrow(0, count - kDraws, kDraws).normal_(0, deviation, generator);
}

at::Tensor new_score_head(const ModelConfig& config, at::ScalarType type, at::Generator& generator) {
  const at::Tensor head =
      tensor::empty({config.labels, config.hidden_size}, at::kFloat, tensor::MemoryKind::workspace);
  if (tensor::Rehearsal::current() == nullptr) draw_normal(head, type, config.initializer_range, generator);
  return head;
}

EmbeddingRows::EmbeddingRows(int64_t rows, at::Generator generator)
    : rows_(rows), generator_(std::move(generator)) {}

at::Tensor EmbeddingRows::embedding(const at::Tensor& weight) {
  skip(weight, [&](const at::Tensor& piece) { draw_normal(piece, weight.scalar_type(), 1, generator_); });
  return resized(weight);
}

at::Tensor EmbeddingRows::head(const at::Tensor& weight) {
  skip(weight, [&](at::Tensor& piece) { piece.uniform_(-1, 1, generator_); });
  return resized(weight);
}

template <typename Draw>
void EmbeddingRows::skip(const at::Tensor& weight, Draw draw) {
  if (tensor::Rehearsal::current() != nullptr) return;
  at::Tensor piece = at::empty({2 * kPieceDraws}, at::kFloat);
  for (int64_t left = rows_ * weight.size(1); left > 0;) {
    // The last piece never has fewer than 16.
    const int64_t count = left <= 2 * kPieceDraws ? left : kPieceDraws;
    base::poll();
    at::Tensor part = piece.narrow(0, 0, count);
    draw(part);
    left -= count;
  }
}

at::Tensor EmbeddingRows::resized(const at::Tensor& weight) {
  const int64_t kept = std::min(rows_, weight.size(0));
  at::Tensor out = tensor::empty({rows_, weight.size(1)}, weight.scalar_type(), tensor::MemoryKind::weights);
  if (tensor::Rehearsal::current() == nullptr)
    tensor::copy_in_parts(out.narrow(0, 0, kept), weight.narrow(0, 0, kept));
  if (rows_ > kept) draw_new_rows(weight, out.narrow(0, kept, rows_ - kept));
  return out;
}

void EmbeddingRows::draw_new_rows(const at::Tensor& weight, at::Tensor new_rows) {
  const tensor::LibtorchMemory workspace(new_rows_bytes(weight, new_rows.size(0)));
  if (tensor::Rehearsal::current() != nullptr) return;
  tensor::start_blas_threads();  // OpenBLAS factors the matrix
  const tensor::OpenMpThreads of_libtorch(tensor::all_threads());
  const at::Tensor mean = mean_row(weight);
  const auto [factor, info] = at::linalg_cholesky_ex(covariance(weight, mean) * kCovarianceScale);
  if (info.item<int>() != 0) {
    new_rows.copy_(mean.expand_as(new_rows));
    return;
  }
  const at::Tensor noise = at::empty(new_rows.sizes(), at::kFloat).normal_(0, 1, generator_);
  new_rows.copy_(at::addmm(mean, noise, factor.t()));
}

LoraStart::LoraStart(const config::LoraConfig& config, at::Generator generator, at::ScalarType weights)
    : init_(config.init_lora_weights),
      iterations_(config.pissa_iterations),
      bias_(config.lora_bias),
      weights_(weights),
      generator_(std::move(generator)) {}

bool LoraStart::needs_weight() const { return init_ == LoraInit::olora || init_ == LoraInit::pissa; }

int64_t LoraStart::workspace(int64_t in, int64_t out, int64_t r) const {
  if (!needs_weight()) return 0;
  const int64_t numbers = init_ == LoraInit::olora ? qr_numbers(out, in, r)
                          : iterations_            ? truncated_numbers(out, in, r)
                                                   : svd_numbers(out, in);
  return kFloatBytes * (numbers + r * (in + out));  // the factors are drawn first
}

int64_t LoraStart::blas_pages(int64_t in, int64_t out, int64_t r) const {
  if (!needs_weight()) return 0;
  const int64_t numbers = init_ == LoraInit::olora ? packed(kLapackBlock, in)
                          : iterations_            ? packed(std::min(in, out), std::max(in, out))
                                                   : svd_packed(out, in);
  return kFloatBytes * std::max(numbers, packed(r, out));  // and of the product in rest()
}

void LoraStart::check(int64_t r) const {
  if (init_ == LoraInit::orthogonal && r % 2 != 0)
    fail_key("init_lora_weights", "init_lora_weights: orthogonal needs an even rank, and r is {}", r);
}

LoraFactors LoraStart::rounded(LoraFactors factors) const {
  for (at::Tensor* const values : {&factors.a, &factors.b, &factors.bias})
    if (values->defined()) *values = values->to(weights_).to(at::kFloat);
  return factors;
}

LoraFactors LoraStart::drawn(int64_t in, int64_t out, int64_t rows) {
  base::poll();
  LoraFactors factors;
  factors.a = at::empty({rows, in}, at::kFloat);
  factors.b = at::empty({out, rows}, at::kFloat);
  uniform(factors.a, in, generator_);
  uniform(factors.b, rows, generator_);
  if (!bias_) return factors;
  const double bound = 1 / std::sqrt(static_cast<double>(rows));
  factors.bias = at::empty({out}, at::kFloat).uniform_(-bound, bound, generator_);
  return factors;
}

void LoraStart::start(LoraFactors& factors, int64_t r) {
  if (init_ == LoraInit::random) return;
  if (init_ == LoraInit::gaussian)
    factors.a.normal_(0, 1 / static_cast<double>(r), generator_);
  else
    uniform(factors.a, factors.a.size(1), generator_);
  factors.b.zero_();
  if (factors.bias.defined()) factors.bias.zero_();
}

LoraFactors LoraStart::linear(int64_t in, int64_t out, int64_t r, double scaling, const at::Tensor& weight) {
  LoraFactors factors = drawn(in, out, r);
  if (init_ == LoraInit::orthogonal) return rounded(orthogonal(in, out, r));
  if (needs_weight()) return rounded(principal(weight, r, scaling));
  start(factors, r);
  return rounded(std::move(factors));
}

LoraFactors LoraStart::embedding(int64_t rows, int64_t width, int64_t r) {
  LoraFactors factors;
  factors.a = normal({r, rows}, generator_);
  factors.b = normal({width, r}, generator_);
  if (init_ == LoraInit::random) return rounded(std::move(factors));
  factors.a.zero_();
  factors.b.normal_(0, 1, generator_);
  return rounded(std::move(factors));
}

LoraFactors LoraStart::experts(int64_t experts, int64_t in, int64_t out, int64_t r) {
  LoraFactors factors = drawn(in, out, r * experts);
  start(factors, r);
  return rounded(std::move(factors));
}

// https://datta0.github.io/posts/rethink-lora-init: the rows of a and the columns of b are combinations of
// two halves of an orthogonal matrix, so that b a is zero without either being so.
LoraFactors LoraStart::orthogonal(int64_t in, int64_t out, int64_t r) {
  check(r);
  const at::Tensor q = std::get<0>(at::linalg_qr(normal({r, r}, generator_)));
  const at::Tensor odd = q.slice(0, 0, r, 2), even = q.slice(0, 1, r, 2);
  LoraFactors factors;
  factors.a = normal({in, r / 2}, generator_).mm(odd).t().div(10).contiguous();
  factors.b = normal({r / 2, out}, generator_).t().mm(even).div(10).contiguous();
  return factors;
}

// OLoRA (QR of the weight) and PiSSA (its largest singular values).
LoraFactors LoraStart::principal(const at::Tensor& weight, int64_t r, double scaling) {
  tensor::start_blas_threads();  // OpenBLAS decomposes the matrix
  LoraFactors factors;
  if (init_ == LoraInit::olora) {
    const auto [q, upper] = at::linalg_qr(weight);
    factors.a = upper.narrow(0, 0, r).contiguous();
    factors.b = q.narrow(1, 0, r).contiguous();
  } else {
    const Decomposition parts =
        iterations_ ? truncated(weight, r, *iterations_, generator_) : exact(weight, r);
    const at::Tensor root = parts.s.div(scaling).sqrt();
    factors.a = (root.unsqueeze(1) * parts.v).contiguous();
    factors.b = (parts.u * root).contiguous();
  }
  return factors;
}

at::Tensor LoraStart::rest(const at::Tensor& weight, const at::Tensor& a, const at::Tensor& b,
                           double scaling) {
  at::Tensor product = b.mm(a).mul_(scaling);
  return at::sub_out(product, weight, product);
}

}  // namespace trl::model

#pragma GCC diagnostic pop
