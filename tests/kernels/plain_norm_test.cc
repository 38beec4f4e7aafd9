#include "kernels/compare.h"

namespace trl::kernels::plain_norm_test {
namespace {

using test::Comparison;
using test::random;

constexpr NormKind kKinds[] = {NormKind::rms, NormKind::rms_wide, NormKind::rms_offset, NormKind::layer};

// Weight, and bias for the kind that has one.
std::vector<at::Tensor> weights_of(NormKind kind, at::IntArrayRef sizes, at::ScalarType type) {
  std::vector<at::Tensor> weights{random(sizes, 2, type)};
  if (kind == NormKind::layer) weights.push_back(random(sizes, 5, type));
  return weights;
}
Norm as_norm(NormKind kind, std::vector<Parameter>& w) {
  return {w.data(), kind == NormKind::layer ? &w[1] : nullptr, kind, 1e-5};
}

Comparison norm_of(NormKind kind, at::IntArrayRef sizes, at::ScalarType x_type, at::ScalarType w_type) {
  return {{random(sizes, 1, x_type)},
          weights_of(kind, {sizes.back()}, w_type),
          [kind](const auto& x, auto& w) { return norm(x[0], as_norm(kind, w)); }};
}

TEST(PlainNorm, FusedIsTheSame) {
  const std::vector<std::vector<int64_t>> shapes = {{1, 3},   {3, 17},    {70, 64},
                                                    {5, 576}, {2100, 33}, {9, 3, 20}};
  for (const NormKind kind : kKinds) {
    for (const auto& sizes : shapes) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(kind) << ": " << sizes[0] << " x " << sizes.back());
      test::expect_fused_is_plain(norm_of(kind, sizes, at::kFloat, at::kFloat), 2e-6, 4);
      test::expect_fused_is_plain(norm_of(kind, sizes, at::kBFloat16, at::kBFloat16), 8e-3, 2);
      test::expect_fused_is_plain(norm_of(kind, sizes, at::kBFloat16, at::kFloat), 8e-3, 2);
    }
  }
}

TEST(PlainNorm, FusedIsTheSameWithWeightsByHead) {
  for (const NormKind kind : kKinds) {
    Comparison c = norm_of(kind, {9, 3, 20}, at::kFloat, at::kFloat);
    c.weights = weights_of(kind, {3, 20}, at::kFloat);
    test::expect_fused_is_plain(c, 2e-6, 4);
  }
}

// Heads whose weights are parameters of their own: as rows of one.
TEST(PlainNorm, WeightsOfHeadsMayBeApart) {
  const at::Tensor w = random({3, 20}, 2);
  for (const NormKind kind : kKinds) {
    Comparison together{{random({9, 3, 20}, 1)}, {w}, [kind](const auto& x, auto& p) {
                          return norm(x[0], {.weight = p.data(), .kind = kind, .eps = 1e-5});
                        }};
    Comparison apart = together;
    apart.weights = {w[0], w[1], w[2]};
    apart.op = [kind](const auto& x, auto& p) {
      return norm(x[0], {.weight = p.data(), .kind = kind, .eps = 1e-5, .more = {&p[1], &p[2]}});
    };
    for (const Path path : {Path::fused, Path::plain}) {
      const test::Results want = test::run(together, path), got = test::run(apart, path);
      EXPECT_TRUE(test::same_bits(got.y, want.y));
      EXPECT_TRUE(test::same_bits(got.gradients[0], want.gradients[0]));
      for (size_t head = 0; head < 3; ++head)
        EXPECT_TRUE(test::same_bits(got.gradients[1 + head], want.gradients[1][static_cast<int64_t>(head)]));
    }
  }
}

TEST(PlainNorm, GradientsAreDerivatives) {
  for (const NormKind kind : kKinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    test::expect_gradients(norm_of(kind, {13, 37}, at::kFloat, at::kFloat));
    test::expect_plain_gradients_in_double(norm_of(kind, {4, 2, 19}, at::kFloat, at::kFloat));
  }
}

// Stream and branch: the sum and its norm, both used.
Comparison residual_of(NormKind kind, at::IntArrayRef sizes, at::ScalarType stream, at::ScalarType branch,
                       at::ScalarType w) {
  return {{random(sizes, 1, stream), random(sizes, 3, branch)},
          weights_of(kind, {sizes.back()}, w),
          [kind](const auto& x, auto& weights) {
            const Residual r = residual_norm(x[0], x[1], as_norm(kind, weights), 0.3);
            return at::cat({r.stream, r.normed}, -1);
          }};
}

TEST(PlainResidualNorm, FusedIsTheSame) {
  for (const NormKind kind : kKinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    test::expect_fused_is_plain(residual_of(kind, {37, 130}, at::kFloat, at::kFloat, at::kFloat), 2e-6, 4);
    test::expect_fused_is_plain(residual_of(kind, {37, 130}, at::kFloat, at::kBFloat16, at::kFloat), 4e-3, 2);
    test::expect_fused_is_plain(residual_of(kind, {5, 64}, at::kBFloat16, at::kBFloat16, at::kBFloat16), 8e-3,
                                3);
  }
}

TEST(PlainResidualNorm, GradientsAreDerivatives) {
  for (const NormKind kind : kKinds) {
    test::expect_gradients(residual_of(kind, {13, 37}, at::kFloat, at::kFloat, at::kFloat));
  }
}

// half: elements of a head that are turned, by two
Comparison rope_of(int64_t tokens, int64_t heads, int64_t width, int64_t half, at::ScalarType type,
                   RopeLayout layout) {
  const at::Tensor angle = random({tokens, half}, 2) * 3;
  return {{random({tokens, heads, width}, 1, type), random({tokens, 2, width}, 3, type)},
          {},
          [=](const auto& x, auto&) {
            const auto [q, k] = rope(x[0], x[1], angle.cos(), angle.sin(), layout);
            return at::cat({q, k}, 1);
          }};
}

TEST(PlainRope, FusedIsTheSame) {
  for (const RopeLayout layout : {RopeLayout::halves, RopeLayout::pairs}) {
    for (const auto& [tokens, heads, width, half] :
         {std::tuple{1, 1, 2, 1}, {70, 3, 64, 32}, {33, 5, 20, 10}, {9, 2, 30, 7}, {17, 1, 128, 64}}) {
      SCOPED_TRACE(testing::Message() << tokens << " x " << heads << " x " << width);
      test::expect_fused_is_plain(rope_of(tokens, heads, width, half, at::kFloat, layout), 1e-6);
      test::expect_fused_is_plain(rope_of(tokens, heads, width, half, at::kBFloat16, layout), 4e-3);
    }
  }
}

TEST(PlainRope, GradientsAreDerivatives) {
  for (const RopeLayout layout : {RopeLayout::halves, RopeLayout::pairs}) {
    test::expect_gradients(rope_of(13, 3, 14, 6, at::kFloat, layout));
    test::expect_plain_gradients_in_double(rope_of(5, 2, 14, 7, at::kFloat, layout));
  }
}

}  // namespace
}  // namespace trl::kernels::plain_norm_test
