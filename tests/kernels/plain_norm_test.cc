#include "kernels/compare.h"

namespace trl::kernels {
namespace {

using test::Comparison;
using test::random;

Comparison norm_of(at::IntArrayRef sizes, at::ScalarType x_type, at::ScalarType w_type) {
  return {{random(sizes, 1, x_type)}, {random({sizes.back()}, 2, w_type)}, [](const auto& x, auto& w) {
            return rms_norm(x[0], w[0], 1e-5);
          }};
}

TEST(PlainRmsNorm, FusedIsTheSame) {
  const std::vector<std::vector<int64_t>> shapes = {{1, 1},   {3, 17},    {70, 64},
                                                    {5, 576}, {2100, 33}, {9, 3, 20}};
  for (const auto& sizes : shapes) {
    SCOPED_TRACE(testing::Message() << sizes[0] << " x " << sizes.back());
    test::expect_fused_is_plain(norm_of(sizes, at::kFloat, at::kFloat), 2e-6, 4);
    test::expect_fused_is_plain(norm_of(sizes, at::kBFloat16, at::kBFloat16), 8e-3, 2);
    test::expect_fused_is_plain(norm_of(sizes, at::kBFloat16, at::kFloat), 8e-3, 2);
  }
}

TEST(PlainRmsNorm, GradientsAreDerivatives) {
  test::expect_gradients(norm_of({13, 37}, at::kFloat, at::kFloat));
  test::expect_plain_gradients_in_double(norm_of({4, 2, 19}, at::kFloat, at::kFloat));
}

// Stream and branch: the sum and its norm, both used.
Comparison residual_of(at::IntArrayRef sizes, at::ScalarType stream, at::ScalarType branch,
                       at::ScalarType w) {
  return {{random(sizes, 1, stream), random(sizes, 2, branch)},
          {random({sizes.back()}, 3, w)},
          [](const auto& x, auto& weights) {
            const Residual r = residual_norm(x[0], x[1], weights[0], 1e-5);
            return at::cat({r.stream, r.normed}, -1);
          }};
}

TEST(PlainResidualNorm, FusedIsTheSame) {
  test::expect_fused_is_plain(residual_of({37, 130}, at::kFloat, at::kFloat, at::kFloat), 2e-6, 4);
  test::expect_fused_is_plain(residual_of({37, 130}, at::kFloat, at::kBFloat16, at::kFloat), 4e-3, 2);
  test::expect_fused_is_plain(residual_of({5, 64}, at::kBFloat16, at::kBFloat16, at::kBFloat16), 8e-3, 3);
}

TEST(PlainResidualNorm, GradientsAreDerivatives) {
  test::expect_gradients(residual_of({13, 37}, at::kFloat, at::kFloat, at::kFloat));
}

// half: elements of a head that are turned, by two
Comparison rope_of(int64_t tokens, int64_t heads, int64_t width, int64_t half, at::ScalarType type) {
  const at::Tensor angle = random({tokens, half}, 2) * 3;
  return {{random({tokens, heads, width}, 1, type), random({tokens, 2, width}, 3, type)},
          {},
          [=](const auto& x, auto&) {
            const auto [q, k] = rope(x[0], x[1], angle.cos(), angle.sin());
            return at::cat({q, k}, 1);
          }};
}

TEST(PlainRope, FusedIsTheSame) {
  for (const auto& [tokens, heads, width, half] :
       {std::tuple{1, 1, 2, 1}, {70, 3, 64, 32}, {33, 5, 20, 10}, {9, 2, 30, 7}, {17, 1, 128, 64}}) {
    SCOPED_TRACE(testing::Message() << tokens << " x " << heads << " x " << width);
    test::expect_fused_is_plain(rope_of(tokens, heads, width, half, at::kFloat), 1e-6);
    test::expect_fused_is_plain(rope_of(tokens, heads, width, half, at::kBFloat16), 4e-3);
  }
}

TEST(PlainRope, GradientsAreDerivatives) {
  test::expect_gradients(rope_of(13, 3, 14, 6, at::kFloat));
  test::expect_plain_gradients_in_double(rope_of(5, 2, 14, 7, at::kFloat));
}

}  // namespace
}  // namespace trl::kernels
