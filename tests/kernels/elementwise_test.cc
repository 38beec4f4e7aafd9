#include "kernels/reference.h"

namespace trl::kernels::elementwise_test {
namespace {

using test::check_gradient;
using test::error_of;
using test::leaf;
using test::parameter;
using test::random;
using test::same_bits;

// Results are rounded once from float32 sums.
double limit(at::ScalarType type) { return type == at::kFloat ? 2e-6 : 4e-3; }

constexpr Activation kActivations[] = {Activation::silu, Activation::gelu, Activation::gelu_tanh,
                                       Activation::relu, Activation::relu_squared};

// The formulas of torch.nn.functional's silu, gelu and relu.
at::Tensor reference(Activation kind, const at::Tensor& x) {
  if (kind == Activation::silu) return x * x.sigmoid();
  if (kind == Activation::relu) return x.clamp_min(0);
  if (kind == Activation::relu_squared) return x.clamp_min(0).square();
  if (kind == Activation::gelu) return x * ((x / std::sqrt(2.0)).erf() + 1.0) * 0.5;
  return x * ((std::sqrt(2 / M_PI) * (x + 0.044715 * x.pow(3))).tanh() + 1.0) * 0.5;
}

// body(kind, type, rows, width)
template <typename Body>
void each_activation(const Body& body) {
  for (const Activation kind : kActivations) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      for (const auto& [rows, width] : {std::pair{1, 1}, {3, 7}, {50, 1536}}) {
        SCOPED_TRACE(testing::Message()
                     << static_cast<int>(kind) << " " << type << " " << rows << " x " << width);
        body(kind, type, rows, width);
      }
    }
  }
}

TEST(Activate, MatchesTheFormulasForwardAndBackward) {
  each_activation([](Activation kind, at::ScalarType type, int64_t rows, int64_t width) {
    const at::Tensor x = leaf(random({rows, width}, 1, type) * 3), dy = random({rows, width}, 2, type);
    const at::Tensor y = activate(kind, x), xd = leaf(x.detach().to(at::kDouble)), want = reference(kind, xd);
    EXPECT_EQ(y.scalar_type(), type);
    EXPECT_LT(error_of(y, want, 1.0), limit(type));
    const at::Tensor dx = torch::autograd::grad({y}, {x}, {dy})[0];
    EXPECT_LT(error_of(dx, torch::autograd::grad({want}, {xd}, {dy.to(at::kDouble)})[0], 1.0), limit(type));
  });
}

TEST(Activate, ReluIsAsPyTorchHasItAtItsEdges) {
  const at::Tensor x = leaf(at::tensor({-INFINITY, -0.0f, 0.0f, INFINITY, std::nanf("")}));
  for (const Activation kind : {Activation::relu, Activation::relu_squared}) {
    const at::Tensor y = activate(kind, x);
    const at::Tensor slope = torch::autograd::grad({y}, {x}, {at::ones({5})})[0];
    EXPECT_EQ(y[0].item<float>(), 0.0f);
    EXPECT_EQ(y[3].item<float>(), INFINITY);
    EXPECT_TRUE(std::isnan(y[4].item<float>()));
    for (const int64_t at : {0, 1, 2}) EXPECT_EQ(slope[at].item<float>(), 0.0f);
  }
}

TEST(Gated, MatchesTheFormulasForwardAndBackward) {
  each_activation([](Activation kind, at::ScalarType type, int64_t rows, int64_t width) {
    const at::Tensor gate = leaf(random({rows, width}, 1, type) * 3),
                     up = leaf(random({rows, width}, 2, type));
    const at::Tensor dy = random({rows, width}, 3, type);
    const at::Tensor y = gated(kind, gate, up);
    const auto got = torch::autograd::grad({y}, {gate, up}, {dy});
    const at::Tensor gd = leaf(gate.detach().to(at::kDouble)), ud = leaf(up.detach().to(at::kDouble));
    const at::Tensor want = reference(kind, gd) * ud;
    const auto grads = torch::autograd::grad({want}, {gd, ud}, {dy.to(at::kDouble)});
    EXPECT_LT(error_of(y, want, 1.0), 2 * limit(type));  // activation and product are rounded
    EXPECT_LT(error_of(got[0], grads[0], 1.0), limit(type));
    EXPECT_LT(error_of(got[1], grads[1], 1.0), limit(type));
    const at::Tensor both = leaf(at::cat({gate.detach(), up.detach()}, 1)), in_one = gated(kind, both);
    EXPECT_TRUE(same_bits(in_one.detach(), y.detach()));
    EXPECT_TRUE(same_bits(torch::autograd::grad({in_one}, {both}, {dy})[0], at::cat({got[0], got[1]}, 1)));
  });
}

TEST(Gated, GradientsAreSlopes) {
  const at::Tensor x = random({4, 9}, 1), up = random({4, 9}, 2), dy = random({4, 9}, 3);
  for (const Activation kind : {Activation::silu, Activation::gelu, Activation::gelu_tanh}) {
    const at::Tensor in = leaf(x);
    check_gradient(x, dy, torch::autograd::grad({gated(kind, in, up)}, {in}, {dy})[0],
                   [&](const at::Tensor& at) { return gated(kind, at, up); });
    check_gradient(x, dy, torch::autograd::grad({activate(kind, in)}, {in}, {dy})[0],
                   [&](const at::Tensor& at) { return activate(kind, at); });
  }
}

TEST(Gated, ExtremeGatesStayFinite) {
  for (const Activation kind : {Activation::silu, Activation::gelu, Activation::gelu_tanh}) {
    const at::Tensor gate = leaf(at::tensor({-1e30f, -200.f, -88.f, 0.f, 88.f, 200.f, 1e30f}));
    const at::Tensor y = gated(kind, gate, at::ones({7}));
    const at::Tensor slope = torch::autograd::grad({y.sum()}, {gate})[0];
    EXPECT_EQ(y[0].item<float>(), 0.0f);
    EXPECT_EQ(y[6].item<float>(), 1e30f);
    EXPECT_EQ(slope[0].item<float>(), 0.0f);
    EXPECT_EQ(slope[6].item<float>(), 1.0f);
    EXPECT_TRUE(at::isfinite(slope).all().item<bool>());
  }
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
  const at::Tensor y = kernels::add(x, norm(x, {.weight = &w, .eps = 1e-5}));
  const at::Tensor dy = random({6, 16}, 2), kept = dy.clone();
  const at::Tensor dx = torch::autograd::grad({y}, {x}, {dy})[0];
  const at::Tensor xd = leaf(x.detach().to(at::kDouble));
  const at::Tensor want = xd + xd * (xd * xd).mean(-1, true).add(1e-5).rsqrt();
  EXPECT_LT(error_of(dx, torch::autograd::grad({want}, {xd}, {dy.to(at::kDouble)})[0]), 1e-6);
  EXPECT_TRUE(same_bits(dy, kept));
}

TEST(Add, BranchMayBeScaled) {
  const at::Tensor stream = leaf(random({9, 31}, 1)), branch = leaf(random({9, 31}, 2, at::kBFloat16));
  const at::Tensor sum = kernels::add(stream, branch, 0.22);
  const at::Tensor scaled = (branch.detach().to(at::kFloat) * 0.22).to(at::kBFloat16);
  EXPECT_TRUE(same_bits(sum.detach(), stream.detach() + scaled));
  const at::Tensor dy = random({9, 31}, 3);
  const auto grads = torch::autograd::grad({sum}, {stream, branch}, {dy});
  EXPECT_TRUE(same_bits(grads[0], dy));
  EXPECT_TRUE(same_bits(grads[1], (dy * 0.22).to(at::kBFloat16)));
}

}  // namespace
}  // namespace trl::kernels::elementwise_test
