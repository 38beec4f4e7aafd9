#include "kernels/reference.h"

namespace trl::kernels {
namespace {

using test::check_gradient;
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
      w.gradient().fill_(1.0);
      const at::Tensor y = rms_norm(x, w, 1e-5);
      const at::Tensor dx = torch::autograd::grad({y}, {x}, {dy})[0];
      const at::Tensor xd = leaf(x.detach().to(at::kDouble)), wd = leaf(w.read()->to(at::kDouble));
      const at::Tensor want = reference_norm(xd, wd, 1e-5);
      const auto grads = torch::autograd::grad({want}, {xd, wd}, {dy.to(at::kDouble)});
      EXPECT_EQ(y.scalar_type(), type);
      EXPECT_LT(error_of(y, want), 2 * limit(type))
          << rows << " x " << width;  // rounded twice, as transformers does
      EXPECT_LT(error_of(dx, grads[0], 1.0), limit(type)) << rows << " x " << width;
      EXPECT_LT(error_of(w.gradient(), grads[1] + 1.0), 4e-6) << rows << " x " << width;
    }
  }
}

TEST(RmsNorm, WeightMayHaveAnotherTypeAndRowsMayBeHeads) {
  Parameter w = parameter(random({16}, 1));
  const at::Tensor x = random({5, 3, 16}, 2, at::kBFloat16);
  const at::Tensor y = rms_norm(x, w, 1e-6);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_EQ(y.sizes(), x.sizes());
  EXPECT_LT(error_of(y, reference_norm(x.to(at::kDouble), w.read()->to(at::kDouble), 1e-6)), 8e-3);
}

TEST(RmsNorm, WeightGradientHasTheSameBitsForAnyNumberOfThreads) {
  const at::Tensor x = leaf(random({5000, 40}, 1)), dy = random({5000, 40}, 2);
  std::vector<at::Tensor> grads;
  for (const int threads : {1, 2, 5}) {
    const Threads scoped(threads);
    Parameter w = parameter(at::ones({40}));
    torch::autograd::grad({rms_norm(x, w, 1e-5)}, {x}, {dy});
    grads.push_back(w.gradient());
  }
  EXPECT_TRUE(same_bits(grads[0], grads[1]));
  EXPECT_TRUE(same_bits(grads[0], grads[2]));
}

TEST(RmsNorm, FrozenWeightIsLeftAlone) {
  Parameter w("w", at::ones({8}));
  const at::Tensor x = leaf(random({4, 8}, 1));
  EXPECT_TRUE(torch::autograd::grad({rms_norm(x, w, 1e-5).sum()}, {x})[0].defined());
  EXPECT_FALSE(w.has_gradient());
}

// stream + branch and its norm, used both, in every mix of types: as add() and rms_norm() apart.
TEST(ResidualNorm, IsTheSumAndItsNormForwardAndBackward) {
  const at::ScalarType mixes[][2] = {
      {at::kFloat, at::kFloat}, {at::kFloat, at::kBFloat16}, {at::kBFloat16, at::kBFloat16}};
  for (const auto& [stream_type, branch_type] : mixes) {
    for (const auto& [rows, width] : {std::pair{1, 1}, {3, 20}, {70, 64}, {2100, 33}, {5, 576}}) {
      SCOPED_TRACE(testing::Message() << stream_type << " " << branch_type << " " << rows << " x " << width);
      const at::Tensor x = leaf(random({rows, width}, 1, stream_type));
      const at::Tensor branch = leaf(random({rows, width}, 2, branch_type));
      const at::Tensor d_stream = random({rows, width}, 3, stream_type);
      const at::Tensor dy = random({rows, width}, 4, stream_type);
      Parameter w = parameter(random({width}, 5));
      const auto [stream, y] = residual_norm(x, branch, w, 1e-5);
      EXPECT_TRUE(same_bits(stream.detach(), kernels::add(x, branch).detach()));
      EXPECT_TRUE(same_bits(y.detach(), rms_norm(stream.detach(), w, 1e-5)));
      const auto got = torch::autograd::grad({stream, y}, {x, branch}, {d_stream, dy});
      const at::Tensor xd = leaf(stream.detach().to(at::kDouble)), wd = leaf(w.read()->to(at::kDouble));
      const auto want = torch::autograd::grad({reference_norm(xd, wd, 1e-5)}, {xd, wd}, {dy.to(at::kDouble)});
      const at::Tensor dx = want[0] + d_stream.to(at::kDouble);
      EXPECT_EQ(got[0].scalar_type(), stream_type);
      EXPECT_LT(error_of(got[0], dx, 1.0), limit(stream_type));
      EXPECT_TRUE(same_bits(got[1], got[0].to(branch_type)));
      EXPECT_LT(error_of(w.gradient(), want[1]), 4e-6);
    }
  }
}

TEST(ResidualNorm, WithoutABranchTheStreamPassesThrough) {
  const at::Tensor x = leaf(random({6, 16}, 1)), d_stream = random({6, 16}, 2), dy = random({6, 16}, 3);
  const at::Tensor kept = d_stream.clone();
  Parameter w = parameter(random({16}, 4)), v = parameter(*w.read());
  const auto [stream, y] = residual_norm(x, {}, w, 1e-5);
  EXPECT_TRUE(same_bits(stream.detach(), x.detach()));
  const at::Tensor dx = torch::autograd::grad({stream, y}, {x}, {d_stream, dy})[0];
  const at::Tensor apart = torch::autograd::grad({rms_norm(x, v, 1e-5)}, {x}, {dy})[0] + d_stream;
  EXPECT_LT(error_of(dx, apart), 1e-6);
  EXPECT_TRUE(same_bits(w.gradient(), v.gradient()));
  EXPECT_TRUE(same_bits(d_stream, kept));
}

TEST(ResidualNorm, OneOutputMayBeUnused) {
  const at::Tensor x = leaf(random({6, 16}, 1)), branch = leaf(random({6, 16}, 2)), d = random({6, 16}, 3);
  Parameter w = parameter(random({16}, 4)), v = parameter(*w.read());
  const auto along = torch::autograd::grad({residual_norm(x, branch, w, 1e-5).stream}, {x, branch}, {d});
  EXPECT_TRUE(same_bits(along[0], d));
  EXPECT_TRUE(same_bits(along[1], d));
  EXPECT_EQ(w.gradient().abs().sum().item<float>(), 0.0f);
  const auto through = torch::autograd::grad({residual_norm(x, branch, w, 1e-5).normed}, {x}, {d});
  const at::Tensor sum = leaf(kernels::add(x, branch));
  EXPECT_TRUE(same_bits(through[0], torch::autograd::grad({rms_norm(sum, v, 1e-5)}, {sum}, {d})[0]));
}

TEST(ResidualNorm, GradientIsTheSlope) {
  const at::Tensor x = random({5, 24}, 1), branch = random({5, 24}, 2), dy = random({5, 24}, 3);
  Parameter w = parameter(random({24}, 4));
  const at::Tensor in = leaf(x);
  const at::Tensor dx = torch::autograd::grad({residual_norm(in, branch, w, 1e-5).normed}, {in}, {dy})[0];
  check_gradient(x, dy, dx, [&](const at::Tensor& at) { return residual_norm(at, branch, w, 1e-5).normed; });
}

TEST(Rope, TurnsHalvesOfQAndKAndBackwardTurnsBack) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const auto& [head_dim, half] : {std::pair{16, 8}, {20, 10}, {64, 32}, {128, 64}, {80, 20}}) {
      const at::Tensor angle = random({37, half}, 1);
      const at::Tensor cos = angle.cos(), sin = angle.sin();
      const at::Tensor c = cos.unsqueeze(1).to(at::kDouble), s = sin.unsqueeze(1).to(at::kDouble);
      const auto turned = [&](const at::Tensor& x) {
        const at::Tensor x1 = x.narrow(2, 0, half), x2 = x.narrow(2, half, half);
        return at::cat({x1 * c - x2 * s, x2 * c + x1 * s, x.narrow(2, 2 * half, head_dim - 2 * half)}, 2);
      };
      const at::Tensor q = leaf(random({37, 3, head_dim}, 2, type)), dq = random({37, 3, head_dim}, 3, type);
      const at::Tensor k = leaf(random({37, 1, head_dim}, 4, type)), dk = random({37, 1, head_dim}, 5, type);
      const auto [yq, yk] = rope(q, k, cos, sin);
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

// The formulas of torch.nn.functional.gelu.
at::Tensor reference_gelu(const at::Tensor& x, bool tanh) {
  if (!tanh) return x * ((x / std::sqrt(2.0)).erf() + 1.0) * 0.5;
  return x * ((std::sqrt(2 / M_PI) * (x + 0.044715 * x.pow(3))).tanh() + 1.0) * 0.5;
}

TEST(Geglu, MatchesTheFormulasForwardAndBackward) {
  for (const bool tanh : {false, true}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      for (const auto& [rows, width] : {std::pair{1, 1}, {3, 7}, {50, 1536}}) {
        const at::Tensor gate = leaf(random({rows, width}, 1, type) * 3),
                         up = leaf(random({rows, width}, 2, type));
        const at::Tensor dy = random({rows, width}, 3, type);
        const at::Tensor y = geglu(gate, up, tanh);
        const auto got = torch::autograd::grad({y}, {gate, up}, {dy});
        const at::Tensor gd = leaf(gate.detach().to(at::kDouble)), ud = leaf(up.detach().to(at::kDouble));
        const at::Tensor want = reference_gelu(gd, tanh) * ud;
        const auto grads = torch::autograd::grad({want}, {gd, ud}, {dy.to(at::kDouble)});
        EXPECT_LT(error_of(y, want, 1.0), 2 * limit(type));
        EXPECT_LT(error_of(got[0], grads[0], 1.0), limit(type));
        EXPECT_LT(error_of(got[1], grads[1], 1.0), limit(type));
      }
    }
    const at::Tensor x = random({4, 9}, 1), up = random({4, 9}, 2), dy = random({4, 9}, 3), in = leaf(x);
    check_gradient(x, dy, torch::autograd::grad({geglu(in, up, tanh)}, {in}, {dy})[0],
                   [&](const at::Tensor& at) { return geglu(at, up, tanh); });
  }
}

TEST(Geglu, ExtremeGatesStayFinite) {
  for (const bool tanh : {false, true}) {
    const at::Tensor gate = leaf(at::tensor({-1e30f, -200.f, -12.f, 0.f, 12.f, 200.f, 1e30f}));
    const at::Tensor y = geglu(gate, at::ones({7}), tanh);
    const at::Tensor slope = torch::autograd::grad({y.sum()}, {gate})[0];
    EXPECT_EQ(y[0].item<float>(), 0.0f);
    EXPECT_EQ(y[6].item<float>(), 1e30f);
    EXPECT_EQ(slope[0].item<float>(), 0.0f);
    EXPECT_EQ(slope[6].item<float>(), 1.0f);
    EXPECT_TRUE(at::isfinite(slope).all().item<bool>());
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
