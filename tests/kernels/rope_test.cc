#include "kernels/reference.h"

namespace trl::kernels::rope_test {
namespace {

using test::error_of;
using test::leaf;
using test::random;
using test::same_bits;

// Results are rounded once from float32 sums.
double limit(at::ScalarType type) { return type == at::kFloat ? 2e-6 : 4e-3; }

constexpr std::pair<RopeLayout, at::ScalarType> kLayoutsAndTypes[] = {{RopeLayout::halves, at::kFloat},
                                                                      {RopeLayout::halves, at::kBFloat16},
                                                                      {RopeLayout::pairs, at::kFloat},
                                                                      {RopeLayout::pairs, at::kBFloat16}};

TEST(Rope, TurnsPairsOfQAndKAndBackwardTurnsBack) {
  for (const auto& [layout, type] : kLayoutsAndTypes) {
    for (const auto& [head_dim, half] : {std::pair{16, 8}, {20, 10}, {64, 32}, {128, 64}, {80, 20}}) {
      const at::Tensor angle = random({37, half}, 1);
      const at::Tensor cos = angle.cos(), sin = angle.sin();
      const at::Tensor c = cos.unsqueeze(1).to(at::kDouble), s = sin.unsqueeze(1).to(at::kDouble);
      const auto turned = [&](const at::Tensor& x) {
        const at::Tensor y = x.clone();
        for (int64_t i = 0; i < half; ++i) {
          const auto [first, second] =
              layout == RopeLayout::halves ? std::pair(i, half + i) : std::pair(2 * i, 2 * i + 1);
          const at::Tensor x1 = x.select(2, first), x2 = x.select(2, second);
          const at::Tensor ci = c.select(2, i), si = s.select(2, i);
          y.select(2, first).copy_(x1 * ci - x2 * si);
          y.select(2, second).copy_(x2 * ci + x1 * si);
        }
        return y;
      };
      const at::Tensor q = leaf(random({37, 3, head_dim}, 2, type)), dq = random({37, 3, head_dim}, 3, type);
      const at::Tensor k = leaf(random({37, 1, head_dim}, 4, type)), dk = random({37, 1, head_dim}, 5, type);
      const auto [yq, yk] = rope(q, k, cos, sin, layout);
      const auto got = torch::autograd::grad({yq, yk}, {q, k}, {dq, dk});
      const at::Tensor qd = leaf(q.detach().to(at::kDouble)), kd = leaf(k.detach().to(at::kDouble));
      const at::Tensor want_q = turned(qd), want_k = turned(kd);
      const auto want =
          torch::autograd::grad({want_q, want_k}, {qd, kd}, {dq.to(at::kDouble), dk.to(at::kDouble)});
      EXPECT_LT(error_of(yq, want_q), limit(type));
      EXPECT_LT(error_of(yk, want_k), limit(type));
      EXPECT_LT(error_of(got[0], want[0]), limit(type));
      EXPECT_LT(error_of(got[1], want[1]), limit(type));
    }
  }
}

TEST(SplitColumns, PartsAreColumnsAndBackwardPutsThemBack) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor x = leaf(random({70, 12}, 1, type)), dy = random({70, 5}, 2, type);
    const std::vector<at::Tensor> parts = split_columns(x, {4, 3, 5});
    EXPECT_TRUE(same_bits(parts[1].detach(), x.detach().narrow(1, 4, 3)));
    EXPECT_TRUE(parts[2].is_contiguous());
    const at::Tensor dx = torch::autograd::grad({parts[2], parts[0]}, {x}, {dy, dy.narrow(1, 0, 4)})[0];
    const at::Tensor unused = at::zeros({70, 3}, at::TensorOptions().dtype(type));
    EXPECT_TRUE(same_bits(dx, at::cat({dy.narrow(1, 0, 4), unused, dy}, 1)));
  }
  EXPECT_THROW(split_columns(at::ones({2, 6}), {4, 3}), Error);
}

}  // namespace
}  // namespace trl::kernels::rope_test
