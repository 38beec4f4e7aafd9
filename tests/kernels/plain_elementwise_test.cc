#include "kernels/compare.h"

namespace trl::kernels::plain_elementwise_test {
namespace {

using test::Comparison;
using test::random;

Comparison sum_of(int64_t rows, int64_t width, at::ScalarType stream, at::ScalarType branch,
                  double scale = 1) {
  return {{random({rows, width}, 1, stream), random({rows, width}, 2, branch)},
          {},
          [=](const auto& x, auto&) { return kernels::add(x[0], x[1], scale); }};
}
Comparison gated_of(Activation kind, int64_t rows, int64_t width, at::ScalarType type) {
  return {{random({rows, width}, 1, type) * 3, random({rows, width}, 2, type)},
          {},
          [=](const auto& x, auto&) { return gated(kind, x[0], x[1]); }};
}
Comparison gated_rows_of(Activation kind, int64_t rows, int64_t width, at::ScalarType type) {
  return {
      {random({rows, 2 * width}, 1, type) * 3}, {}, [=](const auto& x, auto&) { return gated(kind, x[0]); }};
}
Comparison activation_of(Activation kind, int64_t rows, int64_t width, at::ScalarType type) {
  return {
      {random({rows, width}, 1, type) * 3}, {}, [=](const auto& x, auto&) { return activate(kind, x[0]); }};
}

constexpr Activation kActivations[] = {Activation::silu, Activation::gelu, Activation::gelu_tanh,
                                       Activation::relu, Activation::relu_squared};
constexpr std::pair<int64_t, int64_t> kElementShapes[] = {{1, 1}, {1, 15}, {3, 33}, {70, 64}, {300, 101}};

TEST(PlainAdd, FusedIsTheSame) {
  for (const auto& [rows, width] : kElementShapes) {
    for (const double scale : {1.0, 0.3}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << width << " " << scale);
      test::expect_fused_is_plain(sum_of(rows, width, at::kFloat, at::kFloat, scale), 2e-7);
      // A scaled branch's gradient is rounded once, and twice by autograd.
      const double mixed = scale == 1 ? 1e-7 : 8e-3;
      test::expect_fused_is_plain(sum_of(rows, width, at::kFloat, at::kBFloat16, scale), mixed);
      test::expect_fused_is_plain(sum_of(rows, width, at::kBFloat16, at::kBFloat16, scale), 1e-7);
    }
  }
}

TEST(PlainActivations, FusedIsTheSame) {
  for (const Activation kind : kActivations) {
    for (const auto& [rows, width] : kElementShapes) {
      SCOPED_TRACE(testing::Message() << rows << " x " << width << ", kind " << static_cast<int>(kind));
      for (const auto of : {activation_of, gated_of, gated_rows_of}) {
        test::expect_fused_is_plain(of(kind, rows, width, at::kFloat), 2e-6);
        test::expect_fused_is_plain(of(kind, rows, width, at::kBFloat16), test::tolerance(at::kBFloat16), 2);
      }
    }
  }
}

TEST(PlainElementwise, GradientsAreDerivatives) {
  test::expect_gradients(sum_of(7, 31, at::kFloat, at::kFloat, 0.3));
  for (const Activation kind : {Activation::silu, Activation::gelu, Activation::gelu_tanh}) {
    test::expect_gradients(gated_of(kind, 7, 31, at::kFloat));
    test::expect_gradients(activation_of(kind, 7, 31, at::kFloat));
    test::expect_plain_gradients_in_double(gated_rows_of(kind, 5, 9, at::kFloat));
  }
}

}  // namespace
}  // namespace trl::kernels::plain_elementwise_test
