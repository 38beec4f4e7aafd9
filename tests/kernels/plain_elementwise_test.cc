#include "kernels/compare.h"

namespace trl::kernels {
namespace {

using test::Comparison;
using test::random;

Comparison sum_of(int64_t rows, int64_t width, at::ScalarType stream, at::ScalarType branch) {
  return {{random({rows, width}, 1, stream), random({rows, width}, 2, branch)}, {}, [](const auto& x, auto&) {
            return kernels::add(x[0], x[1]);
          }};
}
Comparison swiglu_of(int64_t rows, int64_t width, at::ScalarType type) {
  return {{random({rows, width}, 1, type) * 3, random({rows, width}, 2, type)}, {}, [](const auto& x, auto&) {
            return swiglu(x[0], x[1]);
          }};
}

Comparison geglu_of(int64_t rows, int64_t width, at::ScalarType type, bool tanh) {
  Comparison c = swiglu_of(rows, width, type);
  c.op = [=](const auto& x, auto&) { return geglu(x[0], x[1], tanh); };
  return c;
}

constexpr std::pair<int64_t, int64_t> kElementShapes[] = {{1, 1}, {1, 15}, {3, 33}, {70, 64}, {300, 101}};

TEST(PlainAdd, FusedIsTheSame) {
  for (const auto& [rows, width] : kElementShapes) {
    SCOPED_TRACE(testing::Message() << rows << " x " << width);
    test::expect_fused_is_plain(sum_of(rows, width, at::kFloat, at::kFloat), 1e-7);
    test::expect_fused_is_plain(sum_of(rows, width, at::kFloat, at::kBFloat16), 1e-7);
    test::expect_fused_is_plain(sum_of(rows, width, at::kBFloat16, at::kBFloat16), 1e-7);
  }
}

TEST(PlainSwiglu, FusedIsTheSame) {
  for (const auto& [rows, width] : kElementShapes) {
    SCOPED_TRACE(testing::Message() << rows << " x " << width);
    test::expect_fused_is_plain(swiglu_of(rows, width, at::kFloat), 1e-6);
    test::expect_fused_is_plain(swiglu_of(rows, width, at::kBFloat16), test::tolerance(at::kBFloat16), 2);
  }
}

TEST(PlainGeglu, FusedIsTheSame) {
  for (const bool tanh : {false, true}) {
    for (const auto& [rows, width] : kElementShapes) {
      SCOPED_TRACE(testing::Message() << rows << " x " << width << ", tanh " << tanh);
      test::expect_fused_is_plain(geglu_of(rows, width, at::kFloat, tanh), 2e-6);
      test::expect_fused_is_plain(geglu_of(rows, width, at::kBFloat16, tanh), test::tolerance(at::kBFloat16),
                                  2);
    }
  }
}

TEST(PlainElementwise, GradientsAreDerivatives) {
  test::expect_gradients(sum_of(7, 31, at::kFloat, at::kFloat));
  test::expect_gradients(swiglu_of(7, 31, at::kFloat));
  test::expect_plain_gradients_in_double(swiglu_of(5, 9, at::kFloat));
}

}  // namespace
}  // namespace trl::kernels
