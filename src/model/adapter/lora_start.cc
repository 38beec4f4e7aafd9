#include "model/adapter/lora_start.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/error.h"
#include "base/interrupt.h"
#include "model/adapter/lapack_memory.h"
#include "tensor/threads/openmp_threads.h"

// With sanitizers gcc 12 gives a false warning about the default argument of linalg_svd.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace trl::model {

namespace {

using config::LoraInit;

constexpr int64_t kFactorBytes = 4;  // float32

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

Decomposition exact(const at::Tensor& weight, int64_t rank) {
  const auto [u, s, v] = at::linalg_svd(weight, false);
  return {u.narrow(1, 0, rank), s.narrow(0, 0, rank), v.narrow(0, 0, rank)};
}

}  // namespace

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
  return kFactorBytes * (numbers + r * (in + out));  // the factors are drawn first
}

int64_t LoraStart::blas_pages(int64_t in, int64_t out, int64_t r) const {
  if (!needs_weight()) return 0;
  const int64_t numbers = init_ == LoraInit::olora ? blas_packed(kLapackBlock, in)
                          : iterations_            ? blas_packed(std::min(in, out), std::max(in, out))
                                                   : svd_packed(out, in);
  return kFactorBytes * std::max(numbers, blas_packed(r, out));  // and of the product in rest()
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
