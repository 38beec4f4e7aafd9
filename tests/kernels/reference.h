// What the tests of kernels compare with: plain ATen in float32 or double, and how far apart results may lie.
#pragma once
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include <cstdlib>

#include "base/error.h"
#include "kernels/kernels.h"
#include "tensor/memory/counted.h"
#include "tensor/threads/parallel.h"

namespace trl::test {

using tensor::Parameter;

inline at::Tensor random(at::IntArrayRef sizes, int64_t seed, at::ScalarType type = at::kFloat) {
  at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(seed));
  return at::randn(sizes, generator, at::TensorOptions().dtype(at::kFloat)).to(type);
}

inline Parameter parameter(const at::Tensor& value, at::ScalarType grad_type = at::kFloat) {
  Parameter made("weight", value.contiguous());
  made.begin_training(at::zeros(value.sizes(), at::TensorOptions().dtype(grad_type)));
  return made;
}

inline at::Tensor leaf(const at::Tensor& x) { return x.detach().clone().requires_grad_(); }

// Largest difference, of the largest absolute value of `want` (at least `floor`).
inline double error_of(const at::Tensor& got, const at::Tensor& want, double floor = 0.2) {
  EXPECT_EQ(got.sizes(), want.sizes());
  if (got.sizes() != want.sizes()) return 1e30;
  if (got.numel() == 0) return 0;
  const at::Tensor g = got.detach().to(at::kDouble), w = want.detach().to(at::kDouble);
  if (!at::isfinite(g).all().item<bool>()) return 1e30;
  return (g - w).abs().max().item<double>() / std::max(floor, w.abs().max().item<double>());
}

inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  return a.numel() == 0 || std::memcmp(a.contiguous().data_ptr(), b.contiguous().data_ptr(), a.nbytes()) == 0;
}

// Whether products have the shapes of models, too, which take long: with --slow.
inline bool model_shapes() { return std::getenv("TRL_TEST_MODEL_SHAPES") != nullptr; }

// float32: sums of a few hundred products in another order. bfloat16: one rounding is up to 2^-8 = 0.004 of a
// value; results pass two or three of them (operands, weights of a softmax, output).
inline double tolerance(at::ScalarType type) { return type == at::kFloat ? 2e-6 : 1.2e-2; }

// A gradient along one direction at a time, against (f(x + h v) - f(x - h v)) / 2h in float32: f is summed
// with the weights dy. For smooth ops on values of about 1; 2e-3 is what rounding leaves.
template <typename F>
void check_gradient(const at::Tensor& x, const at::Tensor& dy, const at::Tensor& gradient, const F& f) {
  constexpr double kStep = 1e-2;
  const at::NoGradGuard guard;
  const auto value = [&](const at::Tensor& at) {
    return (f(at).to(at::kDouble) * dy.to(at::kDouble)).sum().template item<double>();
  };
  for (int64_t seed = 101; seed < 104; ++seed) {
    const at::Tensor v = random(x.sizes(), seed);
    const double slope = (value(x + kStep * v) - value(x - kStep * v)) / (2 * kStep);
    const double want = (gradient.to(at::kDouble) * v.to(at::kDouble)).sum().item<double>();
    EXPECT_NEAR(slope, want, 2e-3 * std::sqrt(static_cast<double>(x.numel())));
  }
}

class Threads {
 public:
  explicit Threads(int count) : before_(tensor::threads()) { tensor::set_threads(count); }
  ~Threads() { tensor::set_threads(before_); }

 private:
  int before_;
};

}  // namespace trl::test
