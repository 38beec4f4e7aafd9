#include "kernels/reference.h"

namespace trl::kernels {
namespace {

using test::error_of;
using test::leaf;
using test::parameter;
using test::random;
using test::same_bits;
using test::Threads;

// Results are rounded once from float32 sums.
double limit(at::ScalarType type) { return type == at::kFloat ? 2e-6 : 4e-3; }

at::Tensor reference_norm(const at::Tensor& x, const at::Tensor& w, double eps) {
  return x * (x * x).mean(-1, true).add(eps).rsqrt() * w;
}

TEST(RmsNorm, MatchesTheFormulaForwardAndBackward) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const auto& [rows, width] : {std::pair{1, 1}, {3, 20}, {70, 64}, {2100, 33}, {5, 576}}) {
      const at::Tensor x = leaf(random({rows, width}, 1, type)), dy = random({rows, width}, 2, type);
      Parameter w = parameter(random({width}, 3, type));
      w.grad.fill_(1.0);
      const at::Tensor y = rms_norm(x, w, 1e-5);
      const at::Tensor dx = torch::autograd::grad({y}, {x}, {dy})[0];
      const at::Tensor xd = leaf(x.detach().to(at::kDouble)), wd = leaf(w.value.to(at::kDouble));
      const at::Tensor want = reference_norm(xd, wd, 1e-5);
      const auto grads = torch::autograd::grad({want}, {xd, wd}, {dy.to(at::kDouble)});
      EXPECT_EQ(y.scalar_type(), type);
      EXPECT_LT(error_of(y, want), 2 * limit(type))
          << rows << " x " << width;  // rounded twice, as transformers does
      EXPECT_LT(error_of(dx, grads[0], 1.0), limit(type)) << rows << " x " << width;
      EXPECT_LT(error_of(w.grad, grads[1] + 1.0), 4e-6) << rows << " x " << width;
    }
  }
}

TEST(RmsNorm, WeightMayHaveAnotherTypeAndRowsMayBeHeads) {
  Parameter w = parameter(random({16}, 1));
  const at::Tensor x = random({5, 3, 16}, 2, at::kBFloat16);
  const at::Tensor y = rms_norm(x, w, 1e-6);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_EQ(y.sizes(), x.sizes());
  EXPECT_LT(error_of(y, reference_norm(x.to(at::kDouble), w.value.to(at::kDouble), 1e-6)), 8e-3);
}

TEST(RmsNorm, WeightGradientHasTheSameBitsForAnyNumberOfThreads) {
  const at::Tensor x = leaf(random({5000, 40}, 1)), dy = random({5000, 40}, 2);
  std::vector<at::Tensor> grads;
  for (const int threads : {1, 2, 5}) {
    const Threads scoped(threads);
    Parameter w = parameter(at::ones({40}));
    torch::autograd::grad({rms_norm(x, w, 1e-5)}, {x}, {dy});
    grads.push_back(w.grad);
  }
  EXPECT_TRUE(same_bits(grads[0], grads[1]));
  EXPECT_TRUE(same_bits(grads[0], grads[2]));
}

TEST(RmsNorm, FrozenWeightIsLeftAlone) {
  Parameter w{"w", at::ones({8}), {}, true};
  const at::Tensor x = leaf(random({4, 8}, 1));
  EXPECT_TRUE(torch::autograd::grad({rms_norm(x, w, 1e-5).sum()}, {x})[0].defined());
  EXPECT_FALSE(w.grad.defined());
}

TEST(Rope, TurnsHalvesAndBackwardTurnsBack) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const auto& [head_dim, half] : {std::pair{16, 8}, {20, 10}, {64, 32}, {128, 64}, {80, 20}}) {
      const at::Tensor angle = random({37, half}, 1);
      const at::Tensor cos = angle.cos(), sin = angle.sin();
      const at::Tensor x = leaf(random({37, 3, head_dim}, 2, type)), dy = random({37, 3, head_dim}, 3, type);
      const at::Tensor y = rope(x, cos, sin);
      const at::Tensor dx = torch::autograd::grad({y}, {x}, {dy})[0];
      const at::Tensor xd = leaf(x.detach().to(at::kDouble));
      const at::Tensor c = cos.unsqueeze(1).to(at::kDouble), s = sin.unsqueeze(1).to(at::kDouble);
      const at::Tensor x1 = xd.narrow(2, 0, half), x2 = xd.narrow(2, half, half);
      const at::Tensor want =
          at::cat({x1 * c - x2 * s, x2 * c + x1 * s, xd.narrow(2, 2 * half, head_dim - 2 * half)}, 2);
      EXPECT_LT(error_of(y, want), limit(type));
      EXPECT_LT(error_of(dx, torch::autograd::grad({want}, {xd}, {dy.to(at::kDouble)})[0]), limit(type));
    }
  }
}

TEST(Swiglu, MatchesTheFormulaForwardAndBackward) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const auto& [rows, width] : {std::pair{1, 1}, {3, 7}, {50, 1536}}) {
      const at::Tensor gate = leaf(random({rows, width}, 1, type) * 3),
                       up = leaf(random({rows, width}, 2, type));
      const at::Tensor dy = random({rows, width}, 3, type);
      const at::Tensor y = swiglu(gate, up);
      const auto got = torch::autograd::grad({y}, {gate, up}, {dy});
      const at::Tensor gd = leaf(gate.detach().to(at::kDouble)), ud = leaf(up.detach().to(at::kDouble));
      const at::Tensor want = gd * gd.sigmoid() * ud;
      const auto grads = torch::autograd::grad({want}, {gd, ud}, {dy.to(at::kDouble)});
      EXPECT_LT(error_of(y, want, 1.0), 2 * limit(type));  // silu and product are rounded
      EXPECT_LT(error_of(got[0], grads[0], 1.0), limit(type));
      EXPECT_LT(error_of(got[1], grads[1], 1.0), limit(type));
    }
  }
}

TEST(Swiglu, ExtremeGatesStayFinite) {
  const at::Tensor gate = leaf(at::tensor({-1e30f, -200.f, -88.f, 0.f, 88.f, 200.f, 1e30f}));
  const at::Tensor up = leaf(at::ones({7}));
  const at::Tensor y = swiglu(gate, up);
  const auto grads = torch::autograd::grad({y.sum()}, {gate, up});
  EXPECT_EQ(y[0].item<float>(), 0.0f);
  EXPECT_EQ(y[6].item<float>(), 1e30f);
  EXPECT_TRUE(at::isfinite(grads[0]).all().item<bool>());
  EXPECT_EQ(grads[0][0].item<float>(), 0.0f);
  EXPECT_EQ(grads[0][6].item<float>(), 1.0f);
}

TEST(Add, KeepsTheTypeOfTheStream) {
  const at::Tensor stream = leaf(random({9, 31}, 1)), branch = leaf(random({9, 31}, 2, at::kBFloat16));
  const at::Tensor sum = kernels::add(stream, branch);
  EXPECT_TRUE(same_bits(sum.detach(), stream.detach() + branch.detach().to(at::kFloat)));
  const at::Tensor dy = random({9, 31}, 3);
  const auto grads = torch::autograd::grad({sum}, {stream, branch}, {dy});
  EXPECT_TRUE(same_bits(grads[0], dy));
  EXPECT_TRUE(same_bits(grads[1], dy.to(at::kBFloat16)));
}

TEST(Add, AStreamUsedTwiceGetsBothGradients) {
  const at::Tensor x = leaf(random({6, 16}, 1));
  Parameter w = parameter(at::ones({16}));
  const at::Tensor y = kernels::add(x, rms_norm(x, w, 1e-5));
  const at::Tensor dy = random({6, 16}, 2), kept = dy.clone();
  const at::Tensor dx = torch::autograd::grad({y}, {x}, {dy})[0];
  const at::Tensor xd = leaf(x.detach().to(at::kDouble));
  const at::Tensor want = xd + reference_norm(xd, at::ones({16}, at::kDouble), 1e-5);
  EXPECT_LT(error_of(dx, torch::autograd::grad({want}, {xd}, {dy.to(at::kDouble)})[0]), 1e-6);
  EXPECT_TRUE(same_bits(dy, kept));
}

}  // namespace
}  // namespace trl::kernels
