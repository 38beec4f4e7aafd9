#include "kernels/compare.h"
#include "kernels/experts/experts.h"

namespace trl::kernels::plain_experts_test {
namespace {

using test::Comparison;
using test::random;

// x, the router's logits -> experts' output with the shared one, all that trains.
Comparison experts_of(int64_t tokens, int64_t count, int64_t k, at::ScalarType type, at::ScalarType compute,
                      Activation kind) {
  return {
      {random({tokens, 20}, 1, type), random({tokens, count}, 2, compute), random({tokens, 1}, 5, compute)},
      {random({count, 24, 20}, 3, type) * 0.3, random({count, 20, 12}, 4, type) * 0.3},
      [=](const auto& x, auto& w) {
        const at::Tensor y = experts(x[0], route(x[1], k, true), ExpertWeights{&w[0], &w[1]}, kind, compute);
        return add_gated(y, x[2], x[0].to(compute));
      }};
}

TEST(PlainExperts, FusedIsTheSame) {
  for (const auto& [tokens, count, k] : {std::tuple{1, 3, 2}, {40, 6, 2}, {90, 30, 4}}) {
    SCOPED_TRACE(testing::Message() << tokens << " tokens, " << k << " of " << count);
    test::expect_fused_is_plain(experts_of(tokens, count, k, at::kFloat, at::kFloat, Activation::silu), 4e-6,
                                2);
    test::expect_fused_is_plain(experts_of(tokens, count, k, at::kFloat, at::kBFloat16, Activation::gelu),
                                1.2e-2, 2);
    test::expect_fused_is_plain(experts_of(tokens, count, k, at::kBFloat16, at::kBFloat16, Activation::silu),
                                1.2e-2, 2);
  }
}

TEST(PlainExperts, GradientsAreDerivatives) {
  // A step of 1e-3 changes no choice of these logits.
  test::expect_gradients(experts_of(7, 4, 2, at::kFloat, at::kFloat, Activation::silu), 1e-3, 4e-3);
  test::expect_plain_gradients_in_double(experts_of(5, 4, 2, at::kFloat, at::kDouble, Activation::silu));
}

Comparison balance_of(int64_t tokens, at::ScalarType type) {
  return {{random({tokens, 6}, 1, type), random({tokens, 6}, 2, type)}, {}, [](const auto& x, auto&) {
            return balance_loss(x, 2);
          }};
}

TEST(PlainBalanceLoss, FusedIsTheSame) {
  for (const int64_t tokens : {1, 70, 300}) {
    test::expect_fused_is_plain(balance_of(tokens, at::kFloat), 2e-6);
    test::expect_fused_is_plain(balance_of(tokens, at::kBFloat16), 4e-6, 4);
  }
}

TEST(PlainBalanceLoss, GradientsAreDerivatives) {
  test::expect_gradients(balance_of(20, at::kFloat), 1e-3, 4e-3);
  test::expect_plain_gradients_in_double(balance_of(20, at::kFloat));
}

}  // namespace
}  // namespace trl::kernels::plain_experts_test
