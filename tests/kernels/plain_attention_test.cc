#include "kernels/compare.h"

namespace trl::kernels {
namespace {

using test::random;

struct AttentionShape {
  std::vector<int64_t> lengths;
  int64_t heads, kv_heads, width, window;
  double softcap = 0;
  std::vector<int32_t> prefix = {};
};

test::Comparison attention_of(const AttentionShape& s, at::ScalarType type) {
  const auto segments = std::make_shared<Segments>(*test::segments(s.lengths));
  segments->prefix = s.prefix;
  const int64_t tokens = segments->cu_seqlens.back();
  const AttentionOptions options{1.0 / std::sqrt(static_cast<double>(s.width)), s.window, s.softcap};
  return {{random({tokens, s.heads, s.width}, 1, type), random({tokens, s.kv_heads, s.width}, 2, type),
           random({tokens, s.kv_heads, s.width}, 3, type)},
          {},
          [=](const auto& x, auto&) { return attention(x[0], x[1], x[2], segments, options); }};
}

const AttentionShape kAttentionShapes[] = {
    {{1}, 1, 1, 16, 0},
    {{2, 1, 3, 1}, 4, 2, 20, 0},
    {{63}, 2, 2, 64, 0},
    {{64, 65}, 2, 1, 64, 0},
    {{300}, 9, 3, 64, 0},
    {{100, 1, 17, 130}, 6, 2, 80, 0},
    {{257, 31}, 8, 1, 128, 0},
    {{129, 5}, 3, 3, 15, 0},
    {{300, 9, 64}, 4, 2, 64, 8},
    {{200, 70}, 2, 1, 32, 70},
    {{40, 128}, 2, 2, 16, 1},
    {{0, 5, 0}, 2, 2, 16, 0},
    {{70, 33}, 4, 2, 32, 0, 1.5},
    {{40, 9, 77, 0}, 4, 2, 32, 0, 0, {-1, 0, 0, 0}},
    {{90, 30, 3, 50}, 2, 1, 64, 60, 2.0, {-1, 0, -1, 2}},
};

void compare_attention(at::ScalarType type) {
  for (const AttentionShape& s : kAttentionShapes) {
    SCOPED_TRACE(testing::Message() << "width " << s.width << ", first length " << s.lengths[0] << ", window "
                                    << s.window);
    test::expect_fused_is_plain(attention_of(s, type), test::tolerance(type));
  }
}
TEST(PlainAttention, FusedIsTheSameInFloat32) { compare_attention(at::kFloat); }
TEST(PlainAttention, FusedIsTheSameInBfloat16) { compare_attention(at::kBFloat16); }

TEST(PlainAttention, GradientsAreDerivatives) {
  test::expect_gradients(attention_of({{21, 3, 40}, 4, 2, 16, 0}, at::kFloat), 3e-3);
  test::expect_gradients(attention_of({{33, 8}, 2, 1, 12, 5}, at::kFloat), 3e-3);
  test::expect_gradients(attention_of({{21, 3, 40}, 4, 2, 16, 0, 2.0, {-1, 0, 0}}, at::kFloat), 3e-3);
  test::expect_plain_gradients_in_double(attention_of({{7, 1, 4}, 4, 2, 6, 3}, at::kFloat));
}

}  // namespace
}  // namespace trl::kernels
