#include "kernels/path.h"
#include "kernels/reference.h"

namespace trl::kernels::norm_test {
namespace {

using test::check_gradient;
using test::error_of;
using test::leaf;
using test::parameter;
using test::random;
using test::same_bits;
using test::Threads;

// Results are rounded once from float32 sums; NormKind::rms rounds twice.
double limit(at::ScalarType type) { return type == at::kFloat ? 2e-6 : 4e-3; }

constexpr NormKind kKinds[] = {NormKind::rms, NormKind::rms_wide, NormKind::rms_offset, NormKind::layer};

at::Tensor reference_norm(NormKind kind, const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
  if (kind == NormKind::layer) return at::layer_norm(x, {x.size(-1)}, w, b, 1e-5);
  const at::Tensor hat = x * (x * x).mean(-1, true).add(1e-5).rsqrt();
  return hat * (kind == NormKind::rms_offset ? 1 + w : w);
}

struct Weights {
  Parameter w, b;
  Weights(at::IntArrayRef sizes, at::ScalarType type)
      : w(parameter(random(sizes, 3, type))), b(parameter(random(sizes, 4, type))) {
    w.gradient().fill_(1.0);
    b.gradient().fill_(2.0);
  }
  Norm norm(NormKind kind) { return {&w, kind == NormKind::layer ? &b : nullptr, kind, 1e-5}; }
};

constexpr std::pair<int, int> kShapes[] = {{1, 1}, {3, 20}, {70, 64}, {2100, 33}, {5, 576}};

TEST(Norm, MatchesTheFormulaForwardAndBackward) {
  for (const NormKind kind : kKinds) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      for (const auto& [rows, width] : kShapes) {
        SCOPED_TRACE(testing::Message() << static_cast<int>(kind) << ": " << rows << " x " << width);
        if (kind == NormKind::layer && width == 1) continue;  // no value can differ from its mean
        const at::Tensor x = leaf(random({rows, width}, 1, type) + 0.5), dy = random({rows, width}, 2, type);
        Weights weights({width}, type);
        const at::Tensor y = norm(x, weights.norm(kind));
        const at::Tensor dx = torch::autograd::grad({y}, {x}, {dy})[0];
        const at::Tensor xd = leaf(x.detach().to(at::kDouble)), wd = leaf(weights.w.read()->to(at::kDouble));
        const at::Tensor bd = weights.b.read()->to(at::kDouble);
        const at::Tensor want = reference_norm(kind, xd, wd, bd);
        const auto grads = torch::autograd::grad({want}, {xd, wd}, {dy.to(at::kDouble)});
        EXPECT_EQ(y.scalar_type(), type);
        EXPECT_LT(error_of(y, want), (kind == NormKind::rms ? 2 : 1) * limit(type));
        EXPECT_LT(error_of(dx, grads[0], 1.0), limit(type));
        EXPECT_LT(error_of(weights.w.gradient(), grads[1] + 1.0), 4e-6);
        const at::Tensor d_bias = kind == NormKind::layer ? dy.to(at::kDouble).sum(0) : at::zeros({width});
        EXPECT_LT(error_of(weights.b.gradient(), d_bias + 2.0), 4e-6);
      }
    }
  }
}

// transformers 5.23's LlamaRMSNorm, Olmo2RMSNorm and Gemma2RMSNorm and torch 2.15's LayerNorm in bfloat16, of
// 1.5 sin(0.7 i + 0.3) with the weight cos(0.45 i) and the bias sin(1.3 i): where each rounds shows in the
// last bits.
TEST(Norm, RoundsAsTransformersDoes) {
  constexpr int64_t kWidth = 24;
  const std::vector<int32_t> bits[] = {
      {16088, 16267, 16226, 15962, 48222, 16142, 16290, 16291, 16118, 48781, 48772, 16043,
       16154, 15620, 48998, 49057, 48964, 48596, 48618, 48970, 49062, 49006, 48167, 16141},
      {16088, 16267, 16226, 15962, 48222, 16142, 16290, 16291, 16118, 48781, 48773, 16043,
       16155, 15620, 48998, 49057, 48964, 48596, 48619, 48970, 49062, 49006, 48166, 16141},
      {16216, 16403, 16403, 16280, 15677, 48808, 48653, 32768, 48479, 15922, 16248, 16353,
       16327, 15755, 49126, 49195, 49153, 48926, 16055, 16099, 15875, 0,     15011, 48826},
      {16022, 16377, 16297, 48896, 48990, 16220, 16410, 16350, 48741, 49013, 15935, 16294,
       16162, 49026, 49106, 48968, 15772, 48757, 49033, 49041, 48856, 15532, 48730, 48828}};
  const at::Tensor i = at::arange(kWidth, at::kDouble);
  const auto rounded = [](const at::Tensor& x) { return x.to(at::kFloat).to(at::kBFloat16); };
  const at::Tensor x =
      (rounded((i * 0.7 + 0.3).sin()).to(at::kFloat) * 1.5).to(at::kBFloat16).view({1, kWidth});
  Parameter w("w", rounded((i * 0.45).cos())), b("b", rounded((i * 1.3).sin()));
  for (const Path path : {Path::fused, Path::plain}) {
    const PathScope scope(path);
    for (size_t kind = 0; kind < 4; ++kind) {
      const at::Tensor want = (at::tensor(bits[kind], at::kInt) * 65536).view(at::kFloat);
      const Norm of{&w, kKinds[kind] == NormKind::layer ? &b : nullptr, kKinds[kind], 1e-5};
      EXPECT_TRUE(at::equal(norm(x, of).to(at::kFloat)[0], want)) << kind << ": " << norm(x, of) << want;
    }
  }
}

TEST(Norm, LayerNormMayHaveNoBiasAndALargeMean) {
  const at::Tensor x = leaf(random({9, 100}, 1) + 1000.0), dy = random({9, 100}, 2);
  Weights weights({100}, at::kFloat);
  const at::Tensor y = norm(x, {.weight = &weights.w, .kind = NormKind::layer, .eps = 1e-5});
  const at::Tensor xd = leaf(x.detach().to(at::kDouble));
  const at::Tensor want = reference_norm(NormKind::layer, xd, weights.w.read()->to(at::kDouble), {});
  EXPECT_LT(error_of(y, want), 2e-4);  // x itself is rounded to 3e-5
  const at::Tensor dx = torch::autograd::grad({y}, {x}, {dy})[0];
  EXPECT_LT(error_of(dx, torch::autograd::grad({want}, {xd}, {dy.to(at::kDouble)})[0]), 2e-4);
}

TEST(Norm, WeightMayHaveAnotherTypeAndRowsMayBeHeads) {
  for (const NormKind kind : kKinds) {
    Weights weights({16}, at::kFloat);
    const at::Tensor x = random({5, 3, 16}, 2, at::kBFloat16);
    const at::Tensor y = norm(x, weights.norm(kind));
    EXPECT_EQ(y.scalar_type(), at::kBFloat16);
    EXPECT_EQ(y.sizes(), x.sizes());
    const at::Tensor want = reference_norm(kind, x.to(at::kDouble), weights.w.read()->to(at::kDouble),
                                           weights.b.read()->to(at::kDouble));
    EXPECT_LT(error_of(y, want), 8e-3);
  }
}

TEST(Norm, HeadsMayHaveWeightsOfTheirOwn) {
  for (const NormKind kind : kKinds) {
    const at::Tensor x = leaf(random({700, 3, 20}, 1)), dy = random({700, 3, 20}, 2);
    Weights weights({3, 20}, at::kFloat);
    const at::Tensor y = norm(x, weights.norm(kind));
    const at::Tensor dx = torch::autograd::grad({y}, {x}, {dy})[0];
    for (int64_t head = 0; head < 3; ++head) {
      const auto of_head = [&](const at::Tensor& all) { return all.select(1, head).contiguous(); };
      Weights own({20}, at::kFloat);
      own.w.write()->copy_((*weights.w.read())[head]);
      own.b.write()->copy_((*weights.b.read())[head]);
      const at::Tensor part = leaf(of_head(x.detach()));
      const at::Tensor want = norm(part, own.norm(kind));
      EXPECT_TRUE(same_bits(of_head(y.detach()), want.detach()));
      EXPECT_TRUE(same_bits(of_head(dx), torch::autograd::grad({want}, {part}, {of_head(dy)})[0]));
      EXPECT_LT(error_of(weights.w.gradient()[head], own.w.gradient()), 2e-6);
      EXPECT_LT(error_of(weights.b.gradient()[head], own.b.gradient()), 2e-6);
    }
  }
}

TEST(Norm, GradientsOfWeightsHaveTheSameBitsForAnyNumberOfThreads) {
  const at::Tensor x = leaf(random({5000, 40}, 1)), dy = random({5000, 40}, 2);
  for (const NormKind kind : kKinds) {
    std::vector<Weights> all;
    for (const int threads : {1, 2, 5}) {
      const Threads scoped(threads);
      all.emplace_back(at::IntArrayRef{40}, at::kFloat);
      torch::autograd::grad({norm(x, all.back().norm(kind))}, {x}, {dy});
    }
    for (const size_t other : {1u, 2u}) {
      EXPECT_TRUE(same_bits(all[0].w.gradient(), all[other].w.gradient()));
      EXPECT_TRUE(same_bits(all[0].b.gradient(), all[other].b.gradient()));
    }
  }
}

TEST(Norm, FrozenWeightsAreLeftAlone) {
  for (const NormKind kind : kKinds) {
    Parameter w("w", at::ones({8})), b("b", at::ones({8}));
    const at::Tensor x = leaf(random({4, 8}, 1));
    const Norm frozen{&w, kind == NormKind::layer ? &b : nullptr, kind, 1e-5};
    EXPECT_TRUE(torch::autograd::grad({norm(x, frozen).sum()}, {x})[0].defined());
    EXPECT_FALSE(w.has_gradient());
    EXPECT_FALSE(b.has_gradient());
  }
}

TEST(Norm, ShapesThatDoNotFitAreRefused) {
  Weights weights({8}, at::kFloat), other({6}, at::kFloat), heads({3, 8}, at::kFloat);
  const at::Tensor x = at::ones({4, 8});
  EXPECT_THROW(norm(x, {.weight = &other.w}), Error);
  EXPECT_THROW(norm(x, {.weight = &heads.w}), Error);  // four rows cannot take turns by three
  EXPECT_THROW(norm(x, {.weight = &weights.w, .bias = &weights.b}), Error);
  EXPECT_THROW(norm(x, {.weight = &weights.w, .bias = &other.b, .kind = NormKind::layer}), Error);
}

// stream + branch and its norm, used both, in every mix of types: as add() and norm() apart.
void expect_residual(NormKind kind, at::ScalarType stream_type, at::ScalarType branch_type, double scale,
                     int64_t rows, int64_t width) {
  const at::Tensor x = leaf(random({rows, width}, 1, stream_type));
  const at::Tensor branch = leaf(random({rows, width}, 2, branch_type));
  const at::Tensor d_stream = random({rows, width}, 3, stream_type);
  const at::Tensor dy = random({rows, width}, 4, stream_type);
  Weights weights({width}, at::kFloat);
  const auto [stream, y] = residual_norm(x, branch, weights.norm(kind), scale);
  // Product and sum may be one operation of the machine.
  EXPECT_LT(error_of(stream, kernels::add(x, branch, scale)), scale == 1 ? 0x1p-149 : 1e-7);
  EXPECT_TRUE(same_bits(y.detach(), norm(stream.detach(), weights.norm(kind))));
  const auto got = torch::autograd::grad({stream, y}, {x, branch}, {d_stream, dy});
  const at::Tensor xd = leaf(stream.detach().to(at::kDouble)), wd = leaf(weights.w.read()->to(at::kDouble));
  const at::Tensor normed = reference_norm(kind, xd, wd, weights.b.read()->to(at::kDouble));
  const auto want = torch::autograd::grad({normed}, {xd, wd}, {dy.to(at::kDouble)});
  const at::Tensor dx = want[0] + d_stream.to(at::kDouble);
  EXPECT_EQ(got[0].scalar_type(), stream_type);
  EXPECT_LT(error_of(got[0], dx, 1.0), limit(stream_type));
  EXPECT_TRUE(same_bits(got[1], (got[0].to(at::kFloat) * static_cast<float>(scale)).to(branch_type)));
  EXPECT_LT(error_of(weights.w.gradient(), want[1] + 1.0), 4e-6);
}

TEST(ResidualNorm, IsTheSumAndItsNormForwardAndBackward) {
  const at::ScalarType mixes[][2] = {
      {at::kFloat, at::kFloat}, {at::kFloat, at::kBFloat16}, {at::kBFloat16, at::kBFloat16}};
  for (const NormKind kind : kKinds) {
    for (const auto& [stream, branch] : mixes) {
      for (const auto& [rows, width] : kShapes) {
        if (kind == NormKind::layer && width == 1) continue;
        for (const double scale : {1.0, 0.22}) {
          SCOPED_TRACE(testing::Message() << static_cast<int>(kind) << " " << stream << " " << branch << " "
                                          << scale << ": " << rows << " x " << width);
          expect_residual(kind, stream, branch, scale, rows, width);
        }
      }
    }
  }
}

TEST(ResidualNorm, WithoutABranchTheStreamPassesThrough) {
  const at::Tensor x = leaf(random({6, 16}, 1)), d_stream = random({6, 16}, 2), dy = random({6, 16}, 3);
  const at::Tensor kept = d_stream.clone();
  for (const NormKind kind : kKinds) {
    Weights weights({16}, at::kFloat), apart({16}, at::kFloat);
    const auto [stream, y] = residual_norm(x, {}, weights.norm(kind));
    EXPECT_TRUE(same_bits(stream.detach(), x.detach()));
    const at::Tensor dx = torch::autograd::grad({stream, y}, {x}, {d_stream, dy})[0];
    const at::Tensor want = torch::autograd::grad({norm(x, apart.norm(kind))}, {x}, {dy})[0] + d_stream;
    EXPECT_LT(error_of(dx, want), 1e-6);
    EXPECT_TRUE(same_bits(weights.w.gradient(), apart.w.gradient()));
    EXPECT_TRUE(same_bits(weights.b.gradient(), apart.b.gradient()));
    EXPECT_TRUE(same_bits(d_stream, kept));
  }
}

TEST(ResidualNorm, OneOutputMayBeUnused) {
  const at::Tensor x = leaf(random({6, 16}, 1)), branch = leaf(random({6, 16}, 2)), d = random({6, 16}, 3);
  Parameter w = parameter(random({16}, 4)), v = parameter(*w.read());
  const auto along =
      torch::autograd::grad({residual_norm(x, branch, {.weight = &w}).stream}, {x, branch}, {d});
  EXPECT_TRUE(same_bits(along[0], d));
  EXPECT_TRUE(same_bits(along[1], d));
  EXPECT_EQ(w.gradient().abs().sum().item<float>(), 0.0f);
  const auto through = torch::autograd::grad({residual_norm(x, branch, {.weight = &w}).normed}, {x}, {d});
  const at::Tensor sum = leaf(kernels::add(x, branch));
  EXPECT_TRUE(same_bits(through[0], torch::autograd::grad({norm(sum, {.weight = &v})}, {sum}, {d})[0]));
}

TEST(ResidualNorm, GradientIsTheSlope) {
  const at::Tensor x = random({5, 24}, 1), branch = random({5, 24}, 2), dy = random({5, 24}, 3);
  for (const NormKind kind : kKinds) {
    Weights weights({24}, at::kFloat);
    const at::Tensor in = leaf(x), from = leaf(branch);
    const auto of = [&](const at::Tensor& a, const at::Tensor& b) {
      return residual_norm(a, b, weights.norm(kind), 0.5).normed;
    };
    const auto grads = torch::autograd::grad({of(in, from)}, {in, from}, {dy});
    check_gradient(x, dy, grads[0], [&](const at::Tensor& at) { return of(at, branch); });
    check_gradient(branch, dy, grads[1], [&](const at::Tensor& at) { return of(x, at); });
  }
}

}  // namespace
}  // namespace trl::kernels::norm_test
