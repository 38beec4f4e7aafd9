// Low-rank terms of projections: against plain operators, central differences and the definition.
#include "kernels/compare.h"

namespace trl::kernels {
namespace {

using test::Comparison;
using test::error_of;
using test::leaf;
using test::Parameter;
using test::parameter;
using test::random;
using test::same_bits;

// Three projections of one x: rank 3 with a bias, none, rank 5 and transposed; side by side.
Comparison adapted(int64_t rows, int64_t in, int64_t out, at::ScalarType x_type, at::ScalarType w_type,
                   at::ScalarType factors, at::ScalarType compute) {
  return {{random({rows, in}, 1, x_type)},
          {random({out, in}, 2, w_type) * 0.3, random({out}, 3, w_type), random({out, in}, 4, w_type) * 0.3,
           random({in, out}, 5, w_type) * 0.3, random({3, in}, 6, factors) * 0.3,
           random({out, 3}, 7, factors) * 0.3, random({5, in}, 8, factors) * 0.3,
           random({out, 5}, 9, factors) * 0.3},
          [=](const auto& x, auto& w) {
            const Projection all[] = {{&w[0], &w[1], false, {&w[4], &w[5], 2.0}},
                                      {&w[2], nullptr},
                                      {&w[3], nullptr, true, {&w[6], &w[7], 0.7}}};
            const auto y = linear(x[0], all, compute);
            return at::cat({y[0], y[1], y[2]}, 1);
          }};
}

TEST(LowRank, FusedIsPlain) {
  for (const auto& [rows, in, out] : {std::tuple{1, 1, 1}, {3, 17, 5}, {40, 64, 33}, {70, 96, 64}}) {
    SCOPED_TRACE(testing::Message() << rows << " x " << in << " x " << out);
    const auto f = at::kFloat, b = at::kBFloat16;
    test::expect_fused_is_plain(adapted(rows, in, out, f, f, f, f), 2e-6, 2);
    // plain rounds the reduced x, its scaled value and the term; fused only the first, and the sum
    test::expect_fused_is_plain(adapted(rows, in, out, f, f, f, b), 1.6e-2, 2);
    test::expect_fused_is_plain(adapted(rows, in, out, b, b, f, b), 1.6e-2, 2);
    test::expect_fused_is_plain(adapted(rows, in, out, b, b, b, b), 1.6e-2, 2);
  }
}

// The same two with all that a term may have: magnitudes, a bias of its own, dropout.
Comparison adapted_with_all(int64_t rows, int64_t in, int64_t out, at::ScalarType type,
                            at::ScalarType compute) {
  return {{random({rows, in}, 1)},
          {random({out, in}, 2, type) * 0.3, random({out}, 3, type), random({in, out}, 4, type) * 0.3,
           random({3, in}, 5) * 0.3, random({out, 3}, 6) * 0.3, random({5, in}, 7) * 0.3,
           random({out, 5}, 8) * 0.3, random({out}, 9).abs() + 0.5, random({out}, 10),
           random({out}, 11).abs() + 0.5},
          [=](const auto& x, auto& w) {
            const Projection all[] = {{&w[0], &w[1], false, {&w[3], &w[4], 2.0, nullptr, &w[7], {0.25, 11}}},
                                      {&w[2], nullptr, true, {&w[5], &w[6], 0.7, &w[8], &w[9], {0.25, 12}}}};
            const auto y = linear(x[0], all, compute);
            return at::cat({y[0], y[1]}, 1);
          }};
}

TEST(LowRank, MagnitudesBiasAndDropoutFusedArePlain) {
  for (const auto& [rows, in, out] : {std::tuple{3, 17, 5}, {40, 64, 33}, {70, 96, 130}}) {
    SCOPED_TRACE(testing::Message() << rows << " x " << in << " x " << out);
    const auto f = at::kFloat, b = at::kBFloat16;
    test::expect_fused_is_plain(adapted_with_all(rows, in, out, f, f), 3e-6, 2);
    // plain rounds each of product, terms, their sum and the gain
    test::expect_fused_is_plain(adapted_with_all(rows, in, out, f, b), 2.5e-2, 2);
  }
}

// The norm of the rows is a constant, so only the magnitude follows its central difference.
TEST(LowRank, AMagnitudeScalesTheRowsToItsLength) {
  Parameter w("w", random({30, 20}, 1)), a("a", random({4, 20}, 2)), b("b", random({30, 4}, 3)),
      m = parameter(random({30}, 5).abs() + 0.5), bias("bias", random({30}, 6));
  const at::Tensor x = leaf(random({50, 20}, 4)), dy = random({50, 30}, 7);
  const Projection adapted{&w, &bias, false, {&a, &b, 0.5, nullptr, &m}};
  const at::Tensor whole = *w.read() + 0.5 * b.read()->matmul(*a.read());
  const at::Tensor unit = whole / whole.square().sum(1, true).sqrt();
  const at::Tensor y = linear(x, adapted, at::kFloat)[0];
  EXPECT_LT(error_of(y, x.matmul((unit * m.read()->unsqueeze(1)).t()) + *bias.read()), 3e-6);
  const at::Tensor dx = torch::autograd::grad({y}, {x}, {dy})[0];
  EXPECT_LT(error_of(dx, dy.matmul(unit * m.read()->unsqueeze(1))), 3e-6);
  EXPECT_LT(error_of(m.gradient(), (dy * x.detach().matmul(unit.t())).sum(0)), 3e-6);
}

TEST(LowRank, GradientsAreDerivatives) {
  const auto f = at::kFloat;
  test::expect_gradients(adapted(9, 13, 7, f, f, f, f));
}

TEST(LowRank, IsTheProductOfWeightPlusScaledFactors) {
  for (const int64_t rows : {1, 12, 50}) {
    Parameter w("w", random({30, 20}, 1)), a("a", random({4, 20}, 2)), b("b", random({30, 4}, 3));
    const at::Tensor x = random({rows, 20}, 4);
    const Projection adapted{&w, nullptr, false, {&a, &b, 0.5}};
    const at::Tensor want = x.matmul((*w.read() + 0.5 * b.read()->matmul(*a.read())).t());
    EXPECT_LT(error_of(linear(x, adapted, at::kFloat)[0], want), 2e-6) << rows;
  }
}

// As every adapter begins: the outputs are those without one, bit by bit.
TEST(LowRank, AZeroFactorChangesNothing) {
  for (const at::ScalarType compute : {at::kFloat, at::kBFloat16}) {
    for (const int64_t rows : {4, 60}) {
      Parameter w("w", random({30, 24}, 1)), a("a", random({4, 24}, 2)), b("b", at::zeros({30, 4}));
      const at::Tensor x = random({rows, 24}, 4);
      const Projection plain{&w, nullptr}, adapted{&w, nullptr, false, {&a, &b, 2}};
      EXPECT_TRUE(same_bits(linear(x, adapted, compute)[0], linear(x, plain, compute)[0])) << rows;
    }
  }
}

// The weight is frozen: only the factors get gradients, and x, where it is made again, has the same bits.
TEST(LowRank, MakesItsInputAgain) {
  for (const at::ScalarType compute : {at::kFloat, at::kBFloat16}) {
    const at::Tensor base = random({70, 33}, 1);
    std::vector<at::Tensor> grads[2];
    int made = 0;
    for (const bool again : {false, true}) {
      Parameter w("frozen", random({20, 33}, 2)), a = parameter(random({4, 33}, 3)),
                                                  b = parameter(random({20, 4}, 4));
      const at::Tensor x = leaf(base);
      const Again recipe{[&](const std::vector<at::Tensor>& from) {
                           ++made;
                           return from[0];
                         },
                         {base}};
      const Projection adapted{&w, nullptr, false, {&a, &b, 2}};
      const at::Tensor y = linear(x, adapted, compute, again ? recipe : Again())[0];
      EXPECT_EQ(made, 0);
      grads[again] = torch::autograd::grad({y}, {x}, {random({70, 20}, 5).to(y.scalar_type())});
      grads[again].push_back(a.gradient());
      grads[again].push_back(b.gradient());
      EXPECT_FALSE(w.has_gradient());
    }
    EXPECT_EQ(made, 1);
    for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(grads[0][i], grads[1][i])) << i;
  }
}

TEST(LowRank, SameBitsForAnyNumberOfThreads) {
  const Comparison c = adapted(300, 96, 80, at::kFloat, at::kFloat, at::kFloat, at::kBFloat16);
  const test::Threads one(1);
  const test::Results want = test::run(c, Path::fused);
  for (const int threads : {2, 5}) {
    const test::Threads scoped(threads);
    const test::Results got = test::run(c, Path::fused);
    EXPECT_TRUE(same_bits(got.y, want.y));
    for (size_t i = 0; i < want.gradients.size(); ++i)
      EXPECT_TRUE(same_bits(got.gradients[i], want.gradients[i])) << i;
  }
}

// The lowest projection that is trained: nothing asks for the gradient of its input, and none is made.
TEST(LowRank, AGraphBeginsWhereAFactorIsTrained) {
  for (const Path path : {Path::fused, Path::plain}) {
    const test::PathScope scope(path);
    at::Tensor gradients[2][2];
    for (const bool input : {false, true}) {
      Parameter w("frozen", random({20, 33}, 2)), a = parameter(random({4, 33}, 3)),
                                                  b = parameter(random({20, 4}, 4));
      const at::Tensor x = input ? leaf(random({50, 33}, 1)) : random({50, 33}, 1);
      const Projection adapted{&w, nullptr, false, {&a, &b, 2}};
      const at::Tensor y = linear(x, adapted, at::kFloat)[0];
      ASSERT_TRUE(y.requires_grad());
      torch::autograd::backward({y}, {random({50, 20}, 5)});
      EXPECT_EQ(x.grad().defined(), input);
      gradients[input][0] = a.gradient();
      gradients[input][1] = b.gradient();
      const at::NoGradGuard no_grad;
      EXPECT_FALSE(linear(x.detach(), adapted, at::kFloat)[0].requires_grad());
    }
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(same_bits(gradients[0][i], gradients[1][i])) << i;
  }
  Parameter w("frozen", random({20, 33}, 2)), a("a", random({4, 33}, 3)), b("b", random({20, 4}, 4));
  const Projection frozen{&w, nullptr, false, {&a, &b, 2}};
  EXPECT_FALSE(linear(random({50, 33}, 1), frozen, at::kFloat)[0].requires_grad());
}

// Frozen factors, as those of a reference: their gradient is not made, that of x is.
TEST(LowRank, FrozenFactorsStillReachTheInput) {
  Parameter w("w", random({20, 33}, 2)), a("a", random({4, 33}, 3)), b("b", random({20, 4}, 4));
  const at::Tensor x = leaf(random({50, 33}, 1)), dy = random({50, 20}, 5);
  const Projection adapted{&w, nullptr, false, {&a, &b, 2}};
  const at::Tensor dx = torch::autograd::grad({linear(x, adapted, at::kFloat)[0]}, {x}, {dy})[0];
  EXPECT_LT(error_of(dx, dy.matmul(*w.read() + 2 * b.read()->matmul(*a.read()))), 2e-6);
}

}  // namespace
}  // namespace trl::kernels
