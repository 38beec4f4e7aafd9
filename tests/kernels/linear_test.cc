#include <omp.h>

#include <array>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/gemm/gemm.h"
#include "kernels/path.h"
#include "kernels/reference.h"

namespace trl::kernels {
namespace {

using test::error_of;
using test::leaf;
using test::parameter;
using test::random;
using test::same_bits;
using test::Threads;
using test::tolerance;

TEST(Gemm, AllFormsMatchDouble) {
  const int64_t shapes[][3] = {{1, 1, 1},      {3, 5, 7},     {64, 48, 96},
                               {130, 33, 257}, {1, 576, 100}, {200, 1, 300}};
  for (const auto& [m, n, k] : shapes) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      for (const at::ScalarType c_type : {at::kFloat, at::kBFloat16}) {
        for (int form = 0; form < 8; ++form) {
          const bool ta = form & 1, tb = form & 2, accumulate = form & 4;
          const at::Tensor a = random(ta ? at::IntArrayRef{k, m} : at::IntArrayRef{m, k}, 1, type);
          const at::Tensor b = random(tb ? at::IntArrayRef{n, k} : at::IntArrayRef{k, n}, 2, type);
          at::Tensor c = random({m, n}, 3, c_type);
          at::Tensor want = (ta ? a.t() : a).to(at::kDouble).matmul((tb ? b.t() : b).to(at::kDouble));
          if (accumulate) want = want + c.to(at::kDouble);
          gemm(a, ta, b, tb, c, accumulate ? 1.0f : 0.0f);
          // The operands are exact here: only sums (float32) and the result's rounding (2^-8) differ.
          EXPECT_LT(error_of(c, want), c_type == at::kFloat ? 2e-6 : 3.95e-3)
              << m << " " << n << " " << k << " form " << form << " " << type << " to " << c_type;
        }
      }
    }
  }
}

// Rows in another place, among fewer rows, have the same bits: what is kept of one batch fits into others.
// The wider weights are multiplied in panels.
TEST(Linear, ARowByItselfHasTheBitsThatItHasAmongOthers) {
  const int64_t shapes[][2] = {{576, 576},   {1536, 576},  {576, 1536}, {100, 72},
                               {24, 64},     {896, 128},   {896, 4864}, {4864, 896},
                               {160, 2048},  {2048, 2000}, {100, 3072}, {1024, 4096},
                               {1500, 1500}, {768, 1024},  {300, 8256}, {8320, 200}};
  const int64_t all = 9 * kRowsTogether;
  const at::Tensor places = (at::arange(kRowsTogether, at::kLong) * 149 + 77) % all;
  for (const auto& [out, in] : shapes) {
    for (const auto& [type, stored] :
         {std::pair{at::kFloat, at::kFloat}, {at::kBFloat16, at::kFloat}, {at::kBFloat16, at::kBFloat16}}) {
      Parameter w = parameter(random({out, in}, 2, stored)), bias = parameter(random({out}, 3, stored));
      w.end_training();
      const at::Tensor x = random({all, in}, 1, type);
      const EachRowByItself scope;
      const at::Tensor many = linear(x, w, &bias, type);
      const at::Tensor few = linear(x.index_select(0, places), w, &bias, type);
      EXPECT_TRUE(same_bits(few, many.index_select(0, places))) << out << " " << in << " " << type;
    }
  }
}

TEST(Gemm, SameBitsForAnyNumberOfThreads) {
  const int64_t shapes[][3] = {{96, 1536, 576}, {1024, 576, 1536}, {576, 1536, 1000}, {64, 64, 4096},
                               {17, 200, 3000}, {2048, 192, 576},  {192, 576, 333},   {49152, 8, 64}};
  for (const auto& [m, n, k] : shapes) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      for (int form = 0; form < 4; ++form) {
        const bool ta = form & 1, tb = form & 2;
        const at::Tensor a = random(ta ? at::IntArrayRef{k, m} : at::IntArrayRef{m, k}, 1, type);
        const at::Tensor b = random(tb ? at::IntArrayRef{n, k} : at::IntArrayRef{k, n}, 2, type);
        std::vector<at::Tensor> results;
        for (const int threads : {1, 2, 3, 5}) {
          const Threads scoped(threads);
          at::Tensor c = at::ones({m, n});
          gemm(a, ta, b, tb, c, 1.0f);
          results.push_back(c);
        }
        for (const at::Tensor& c : results) {
          EXPECT_TRUE(same_bits(c, results[0]))
              << m << " " << n << " " << k << " form " << form << " " << type;
        }
      }
    }
  }
}

// A tile at a time, and rounded as often as the products alone.
// Tiles of tokens of at least kSumPiece rows, a multiple of it except for the last.
TEST(Gemm, RowsByTilesHaveTheBitsOfAll) {
  std::vector<std::array<int64_t, 2>> shapes = {{64, 40}, {200, 8500}, {8320, 200}, {300, 100}};
  if (test::model_shapes()) {
    shapes.push_back({896, 4864});
    shapes.push_back({4864, 896});
  }
  const int64_t all = 2 * kSumPiece + 1000;
  for (const auto& [n, k] : shapes) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const at::Tensor a = random({all, k}, 1, type);
      for (const bool transposed : {false, true}) {
        const at::Tensor b = random(transposed ? at::IntArrayRef{n, k} : at::IntArrayRef{k, n}, 2, type);
        at::Tensor c = at::empty({all, n}, type), by_tiles = at::empty({all, n}, type);
        gemm(a, false, b, transposed, c);
        for (const auto& [first, count] : {std::pair{int64_t{0}, kSumPiece}, {kSumPiece, all - kSumPiece}}) {
          at::Tensor tile = by_tiles.narrow(0, first, count);
          gemm(a.narrow(0, first, count), false, b, transposed, tile);
        }
        EXPECT_TRUE(same_bits(c, by_tiles)) << n << " " << k << " " << type << " " << transposed;
      }
    }
  }
}

// A long sum in one product and by products of its pieces, the gradient of a weight by tiles of tokens.
TEST(Gemm, PiecesOfALongSumHaveTheBitsOfAllOfIt) {
  const int64_t shapes[][2] = {{96, 64}, {700, 300}, {1100, 200}, {8, 576}};
  const int64_t all = 4 * kSumPiece + 300, pieces[] = {0, 2 * kSumPiece, 3 * kSumPiece, all};
  for (const auto& [m, n] : shapes) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      for (const at::ScalarType c_type : {at::kFloat, at::kBFloat16}) {
        const at::Tensor a = random({all, m}, 1, type), b = random({all, n}, 2, type);
        at::Tensor c = random({m, n}, 3, c_type), by_pieces = c.clone();
        gemm(a, true, b, false, c, 1.0f);
        at::Tensor sum = c_type == at::kFloat ? by_pieces : at::zeros({m, n});
        for (int i = 0; i < 3; ++i) {
          const int64_t count = pieces[i + 1] - pieces[i];
          gemm(a.narrow(0, pieces[i], count), true, b.narrow(0, pieces[i], count), false, sum, 1.0f);
        }
        if (c_type == at::kBFloat16) by_pieces = (by_pieces.to(at::kFloat) + sum).to(c_type);
        EXPECT_TRUE(same_bits(c, by_pieces)) << m << " " << n << " " << type << " to " << c_type;
      }
    }
  }
}

TEST(Gemm, ASumOfProductsHasTheBitsOfOneAfterTheOther) {
  for (const auto& [m, n] : {std::pair{3, 7}, {130, 33}, {1100, 600}, {300, 1600}}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      for (const at::ScalarType c_type : {at::kFloat, at::kBFloat16}) {
        const TensorFactors sum[] = {{random({m, 96}, 1, type), false, random({n, 96}, 2, type), true},
                                     {random({m, 16}, 3, type), false, random({16, n}, 4, type), false},
                                     {random({m, 5}, 5, type), false, random({n, 5}, 6, type), true}};
        for (const float beta : {0.0f, 1.0f}) {
          at::Tensor got = random({m, n}, 7, c_type), want = got.clone();
          gemm(sum, got, beta);
          if (type == at::kFloat && c_type == at::kBFloat16) {  // summed in float32
            at::Tensor wide = beta == 0 ? at::zeros({m, n}) : want.to(at::kFloat);
            for (const TensorFactors& f : sum) gemm(f, wide, 1.0f);
            want = wide.to(c_type);
          } else {
            gemm(sum[0], want, beta);
            for (const TensorFactors& f : at::ArrayRef<TensorFactors>(sum).slice(1)) gemm(f, want, 1.0f);
          }
          EXPECT_TRUE(same_bits(got, want)) << m << " x " << n << " " << type << " to " << c_type;
        }
      }
    }
  }
}

TEST(Gemm, LeavesTheCallersThreadsAlone) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(7);
  at::Tensor c = at::empty({32, 32});
  gemm(random({32, 32}, 1), false, random({32, 32}, 2), false, c);
  EXPECT_EQ(omp_get_max_threads(), 7);
  omp_set_num_threads(before);
}

TEST(Gemm, EmptyAndWrongShapes) {
  at::Tensor c = at::ones({2, 3});
  gemm(at::empty({2, 0}), false, at::empty({0, 3}), false, c, 1.0f);
  EXPECT_EQ(c.sum().item<float>(), 6.0f);
  gemm(at::empty({2, 0}), false, at::empty({0, 3}), false, c);
  EXPECT_EQ(c.sum().item<float>(), 0.0f);
  EXPECT_THROW(gemm(at::ones({2, 4}), false, at::ones({3, 3}), false, c), Error);
}

struct LinearTypes {
  at::ScalarType x, w, grad, compute;
};

at::Tensor rounded(const at::Tensor& x, at::ScalarType type) { return x.to(type).to(at::kDouble); }

void check_linear(const LinearTypes& t, int64_t tokens, int64_t in, int64_t out, bool bias) {
  const at::Tensor x = leaf(random({tokens, in}, 1, t.x));
  Parameter w = parameter(random({out, in}, 2, t.w) * 0.1, t.grad),
            b = parameter(random({out}, 3, t.w), t.grad);
  w.gradient().fill_(0.5);
  const at::Tensor dy = random({tokens, out}, 4, t.compute);
  const at::Tensor y = linear(x, w, bias ? &b : nullptr, t.compute);
  ASSERT_EQ(y.scalar_type(), t.compute);
  const at::Tensor dx = torch::autograd::grad({y}, {x}, {dy})[0];
  ASSERT_EQ(dx.scalar_type(), t.x);

  const at::Tensor xd = leaf(rounded(x.detach(), t.compute)), wd = leaf(rounded(*w.read(), t.compute));
  const at::Tensor bd = leaf(rounded(*b.read(), t.compute));
  const at::Tensor want = bias ? xd.matmul(wd.t()) + bd : xd.matmul(wd.t());
  const auto grads = torch::autograd::grad({want}, {xd, wd}, {dy.to(at::kDouble)});
  // One rounding where a result is bfloat16, none but the order of a sum elsewhere.
  const auto limit = [](at::ScalarType type) { return type == at::kFloat ? 3e-6 : 4e-3; };
  EXPECT_LT(error_of(y, want), limit(t.compute));
  EXPECT_LT(error_of(dx, grads[0]), limit(t.x));
  EXPECT_LT(error_of(w.gradient(), grads[1] + 0.5), limit(t.grad));
  if (bias) {
    EXPECT_LT(error_of(b.gradient(), dy.to(at::kDouble).sum(0)), limit(t.grad));
  }
}

TEST(Linear, ForwardAndBackwardOfEveryMixOfTypes) {
  const LinearTypes mixes[] = {{at::kFloat, at::kFloat, at::kFloat, at::kFloat},
                               {at::kFloat, at::kFloat, at::kFloat, at::kBFloat16},
                               {at::kBFloat16, at::kFloat, at::kFloat, at::kBFloat16},
                               {at::kBFloat16, at::kBFloat16, at::kBFloat16, at::kBFloat16},
                               {at::kBFloat16, at::kBFloat16, at::kFloat, at::kBFloat16}};
  for (const LinearTypes& t : mixes) {
    for (const bool bias : {false, true}) {
      check_linear(t, 40, 96, 50, bias);
      check_linear(t, 1, 33, 7, bias);
      check_linear(t, 5, 64, 130, bias);
      check_linear(t, 200, 48, 20, bias);
    }
  }
}

TEST(Linear, TransposedWeightIsTheSameProduct) {
  for (const int64_t rows : {1, 40}) {
    const at::Tensor x = random({rows, 24}, 1), w = random({10, 24}, 2), dy = random({rows, 10}, 3);
    Parameter straight = parameter(w), turned = parameter(w.t().contiguous()),
              bias = parameter(random({10}, 4)), same_bias = parameter(*bias.read());
    const at::Tensor xa = leaf(x), xb = leaf(x);
    const Projection projection{&turned, &same_bias, true};
    const at::Tensor ya = linear(xa, straight, &bias, at::kFloat);
    const at::Tensor yb = linear(xb, projection, at::kFloat)[0];
    EXPECT_LT(error_of(yb, ya), 1e-6);
    const at::Tensor ga = torch::autograd::grad({ya}, {xa}, {dy})[0];
    const at::Tensor gb = torch::autograd::grad({yb}, {xb}, {dy})[0];
    EXPECT_LT(error_of(gb, ga), 1e-6);
    EXPECT_LT(error_of(turned.gradient().t(), straight.gradient()), 1e-6);
    EXPECT_TRUE(same_bits(same_bias.gradient(), bias.gradient()));
  }
}

TEST(Linear, SharedInputEqualsSeparateOnes) {
  const at::Tensor x = random({30, 24}, 1);
  Parameter w1 = parameter(random({10, 24}, 2)), w2 = parameter(random({12, 24}, 3));
  Parameter v1 = parameter(*w1.read()), v2 = parameter(*w2.read());
  const at::Tensor xa = leaf(x), xb = leaf(x);
  const Projection both[] = {{&w1, nullptr}, {&w2, nullptr}};
  const auto ya = linear(xa, both, at::kFloat);
  const at::Tensor yb1 = linear(xb, v1, nullptr, at::kFloat), yb2 = linear(xb, v2, nullptr, at::kFloat);
  EXPECT_TRUE(same_bits(ya[0], yb1));
  EXPECT_TRUE(same_bits(ya[1], yb2));
  const at::Tensor da = random({30, 10}, 4), db = random({30, 12}, 5);
  const at::Tensor ga = torch::autograd::grad({ya[0], ya[1]}, {xa}, {da, db})[0];
  const at::Tensor gb = torch::autograd::grad({yb1, yb2}, {xb}, {da, db})[0];
  EXPECT_LT(error_of(ga, gb), 1e-6);
  EXPECT_TRUE(same_bits(w1.gradient(), v1.gradient()));
  EXPECT_TRUE(same_bits(w2.gradient(), v2.gradient()));
  // One output unused: its weight gets nothing.
  w1.gradient().zero_();
  w2.gradient().zero_();
  const auto yc = linear(xa, both, at::kFloat);
  torch::autograd::grad({yc[1]}, {xa}, {db});
  EXPECT_EQ(w1.gradient().abs().sum().item<float>(), 0.0f);
  EXPECT_TRUE(same_bits(w2.gradient(), v2.gradient()));
}

TEST(Linear, FrozenWeightGetsNoGradientAndKeepsNothing) {
  Parameter w("frozen", random({8, 6}, 1));
  const at::Tensor x = leaf(random({20, 6}, 2));
  const at::Tensor y = linear(x, w, nullptr, at::kFloat);
  const at::Tensor dx = torch::autograd::grad({y.sum()}, {x})[0];
  EXPECT_LT(error_of(dx, w.read()->sum(0).expand({20, 6})), 1e-6);
  EXPECT_FALSE(w.has_gradient());
}

TEST(Linear, NoGraphWithoutGradient) {
  Parameter w = parameter(random({8, 6}, 1));
  EXPECT_FALSE(linear(random({20, 6}, 2), w, nullptr, at::kFloat).requires_grad());
  const at::NoGradGuard guard;
  EXPECT_FALSE(linear(leaf(random({20, 6}, 2)), w, nullptr, at::kFloat).requires_grad());
}

TEST(Linear, AGradientSummedOverMicroBatchesIsTheGradientOfAll) {
  Parameter w = parameter(random({8, 6}, 1)), all = parameter(*w.read());
  const at::Tensor x = random({20, 6}, 2), dy = random({20, 8}, 3);
  for (int64_t start : {0, 10}) {
    const at::Tensor part = leaf(x.narrow(0, start, 10));
    torch::autograd::grad({linear(part, w, nullptr, at::kFloat)}, {part}, {dy.narrow(0, start, 10)});
  }
  const at::Tensor whole = leaf(x);
  torch::autograd::grad({linear(whole, all, nullptr, at::kFloat)}, {whole}, {dy});
  EXPECT_LT(error_of(w.gradient(), all.gradient()), 1e-6);
}

TEST(Embedding, GathersAndScattersInOrder) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    Parameter w = parameter(random({11, 70}, 1, type));
    const at::Tensor ids = at::tensor({3, 0, 3, 10, 3, 7}, at::kInt);
    const at::Tensor anchor = leaf(at::zeros({}));
    const at::Tensor y = embedding(anchor, ids, w);
    EXPECT_TRUE(same_bits(y.detach(), w.read()->index_select(0, ids.to(at::kLong))));
    const at::Tensor dy = random({6, 70}, 2, type);
    torch::autograd::backward({y}, {dy});
    const at::Tensor want =
        at::zeros({11, 70}, at::kDouble).index_add(0, ids.to(at::kLong), dy.to(at::kDouble));
    EXPECT_LT(error_of(w.gradient(), want), 1e-6);
    const at::Tensor first = w.gradient().clone();
    w.gradient().zero_();
    const Threads one(1);
    torch::autograd::backward({embedding(anchor, ids, w)}, {dy});
    EXPECT_TRUE(same_bits(first, w.gradient()));
  }
}

// A thousand lookups of one id: in bfloat16 the sum would stand still from 256 on.
TEST(Embedding, ABfloat16GradientIsSummedInFloat32) {
  const at::Tensor ids = at::cat({at::full({1000}, 2, at::kInt), at::tensor({0, 1, 0}, at::kInt)});
  const at::Tensor dy = (random({1003, 1100}, 2).abs() + 0.5).to(at::kBFloat16);
  for (const Path path : {Path::fused, Path::plain}) {
    const PathScope scope(path);
    Parameter w = parameter(random({4, 1100}, 1, at::kBFloat16), at::kBFloat16);
    w.gradient().fill_(3);
    torch::autograd::backward({embedding(leaf(at::zeros({})), ids, w)}, {dy});
    const at::Tensor want = at::full({4, 1100}, 3.0, at::kDouble)
                                .index_add(0, ids.to(at::kLong), dy.to(at::kDouble))
                                .to(at::kFloat);
    // Of float32 sums, rounded once: half a unit in the last place, and the sum's own error.
    EXPECT_LE(((w.gradient().to(at::kDouble) - want) / want).abs().max().item<double>(), 0x1p-8 + 1e-5);
  }
}

// The rows of a float32 table that is the head's, too, in a model whose hidden states are in bfloat16.
TEST(Embedding, RowsMayHaveAnotherTypeThanTheirTable) {
  const at::Tensor ids = at::tensor({3, 0, 3, 10}, at::kInt);
  const at::Tensor dy = random({4, 70}, 2, at::kBFloat16);
  const at::Tensor want =
      at::zeros({11, 70}, at::kDouble).index_add(0, ids.to(at::kLong), dy.to(at::kDouble));
  for (const Path path : {Path::fused, Path::plain}) {
    const PathScope scope(path);
    Parameter w = parameter(random({11, 70}, 1));
    const at::Tensor y = embedding(leaf(at::zeros({})), ids, w, {.type = at::kBFloat16});
    EXPECT_TRUE(same_bits(y.detach(), w.read()->index_select(0, ids.to(at::kLong)).to(at::kBFloat16)));
    torch::autograd::backward({y}, {dy});
    EXPECT_EQ(w.gradient().scalar_type(), at::kFloat);
    EXPECT_LT(error_of(w.gradient(), want), 1e-6);
    const at::NoGradGuard no_graph;
    EXPECT_TRUE(same_bits(embedding(at::zeros({}), ids, w, {.type = at::kBFloat16}), y.detach()));
  }
}

// nn.Embedding's padding_idx: its row gets nothing from lookups, all others what they would.
TEST(Embedding, ThePaddingRowIsNotTrained) {
  Parameter w = parameter(random({11, 70}, 1));
  w.padding_row = 3;
  const at::Tensor ids = at::tensor({3, 0, 3, 10, 3, 7, 7}, at::kInt);
  const at::Tensor y = embedding(leaf(at::zeros({})), ids, w);
  torch::autograd::backward({y}, {at::ones({7, 70}, at::kFloat)});
  for (int64_t row = 0; row < 11; ++row) {
    const double want = row == 3 ? 0 : (ids == row).sum().item<double>();
    EXPECT_EQ(w.gradient()[row].min().item<double>(), want) << row;
    EXPECT_EQ(w.gradient()[row].max().item<double>(), want) << row;
  }
}

TEST(Embedding, AnIdOutsideTheVocabularyIsAnError) {
  Parameter w = parameter(random({4, 8}, 1));
  const at::Tensor anchor = leaf(at::zeros({}));
  EXPECT_THROW(embedding(anchor, at::tensor({0, 4}, at::kInt), w), Error);
  EXPECT_THROW(embedding(anchor, at::tensor({-1}, at::kInt), w), Error);
}

// Uniform in [-size, size): mean 0 and variance size^2 / 3; the same for any number of threads; gradients of
// the embedding are as without it.
TEST(Embedding, NoiseIsUniformAndDrawnByCounter) {
  constexpr int64_t kTokens = 300, kWidth = 256;
  Parameter w = parameter(at::zeros({2, kWidth}));
  const at::Tensor ids = at::zeros({kTokens}, at::kInt), anchor = leaf(at::zeros({}));
  const EmbeddingOptions noise{.noise = {0.5, 11}};
  const at::Tensor x = embedding(anchor, ids, w, noise);
  x.sum().backward();
  EXPECT_EQ(w.gradient()[0][0].item<float>(), static_cast<float>(kTokens));
  const at::Tensor values = x.detach().to(at::kDouble);
  const double count = kTokens * kWidth;
  EXPECT_NEAR(values.mean().item<double>(), 0.0, 5 * 0.5 / std::sqrt(3 * count));
  EXPECT_NEAR(values.pow(2).mean().item<double>(), 0.25 / 3, 0.01 * 0.25 / 3);
  EXPECT_GE(values.min().item<double>(), -0.5);
  EXPECT_LT(values.max().item<double>(), 0.5);
  for (const int threads : {1, 3}) {
    const Threads scoped(threads);
    EXPECT_TRUE(same_bits(embedding(anchor, ids, w, noise).detach(), x.detach()));
  }
  EXPECT_FALSE(same_bits(embedding(anchor, ids, w, {.noise = {0.5, 12}}).detach(), x.detach()));
  EXPECT_FALSE(same_bits(x.detach()[0], x.detach()[1]));
}

// Gemma rounds the scale to the weight's type, and noise comes after it; Granite's multiplier takes both.
TEST(Embedding, IsScaledBeforeNoiseAndMultipliedBehindIt) {
  const at::Tensor ids = at::tensor({3, 0, 3}, at::kInt), anchor = leaf(at::zeros({})),
                   dy = random({3, 40}, 2);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    Parameter w = parameter(random({5, 40}, 1, type));
    const at::Tensor rows = w.read()->index_select(0, ids.to(at::kLong));
    const at::Tensor root = at::tensor({std::sqrt(40.0)}).to(type),
                     y = embedding(anchor, ids, w, {.scale = std::sqrt(40.0)});
    EXPECT_TRUE(same_bits(y.detach(), rows * root));
    const at::Tensor multiplied = (rows.to(at::kFloat) * 0.3f).to(type);
    EXPECT_TRUE(same_bits(embedding(anchor, ids, w, {.multiplier = 0.3}).detach(), multiplied));
    torch::autograd::backward({y}, {dy.to(type)});
    const at::Tensor want =
        at::zeros({5, 40}, at::kDouble).index_add(0, ids.to(at::kLong), (dy.to(type) * root).to(at::kDouble));
    EXPECT_LT(error_of(w.gradient(), want), 1e-6);
  }
  Parameter w = parameter(random({5, 40}, 1));
  const EmbeddingOptions noise{.noise = {0.5, 11}}, all{.scale = 2, .noise = noise.noise, .multiplier = 3};
  const at::Tensor rows = embedding(anchor, ids, w).detach();
  const at::Tensor drawn = embedding(anchor, ids, w, noise).detach() - rows;
  EXPECT_LT(error_of(embedding(anchor, ids, w, all), 3 * (2 * rows + drawn)), 1e-6);
}

// An x that backward makes again in place of keeping it: the same bits, and made once.
TEST(Linear, MakesItsInputAgain) {
  for (const at::ScalarType compute : {at::kFloat, at::kBFloat16}) {
    const at::Tensor base = random({70, 33}, 1);
    std::vector<at::Tensor> grads[2];
    int made = 0;
    for (const bool again : {false, true}) {
      Parameter w = parameter(random({20, 33}, 2), at::kFloat);
      const at::Tensor x = leaf(base);
      const Again recipe{[&](const std::vector<at::Tensor>& from) {
                           ++made;
                           return from[0];
                         },
                         {base}};
      const at::Tensor y = linear(x, w, nullptr, compute, again ? recipe : Again());
      EXPECT_EQ(made, 0);
      grads[again] = torch::autograd::grad({y}, {x}, {random({70, 20}, 3).to(y.scalar_type())});
      grads[again].push_back(w.gradient());
    }
    EXPECT_EQ(made, 1);
    for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(same_bits(grads[0][i], grads[1][i])) << i;
  }
}

}  // namespace
}  // namespace trl::kernels
