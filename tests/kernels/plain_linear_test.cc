#include <thread>

#include "kernels/compare.h"

namespace trl::kernels {
namespace {

using test::Comparison;
using test::random;
using test::same_bits;

// Two projections of one x, the first with a bias; side by side.
Comparison linear_of(int64_t rows, int64_t in, int64_t out, at::ScalarType x_type, at::ScalarType w_type,
                     at::ScalarType compute) {
  return {
      {random({rows, in}, 1, x_type)},
      {random({out, in}, 2, w_type) * 0.3, random({out}, 3, w_type), random({2 * out, in}, 4, w_type) * 0.3},
      [=](const auto& x, auto& w) {
        const Projection both[] = {{&w[0], &w[1]}, {&w[2], nullptr}};
        const auto y = linear(x[0], both, compute);
        return at::cat({y[0], y[1]}, 1);
      }};
}

TEST(PlainLinear, FusedIsTheSame) {
  for (const auto& [rows, in, out] : {std::tuple{1, 1, 1}, {3, 17, 5}, {40, 64, 33}, {70, 96, 64}}) {
    SCOPED_TRACE(testing::Message() << rows << " x " << in << " x " << out);
    test::expect_fused_is_plain(linear_of(rows, in, out, at::kFloat, at::kFloat, at::kFloat), 2e-6, 2);
    test::expect_fused_is_plain(linear_of(rows, in, out, at::kFloat, at::kFloat, at::kBFloat16), 8e-3, 2);
    test::expect_fused_is_plain(linear_of(rows, in, out, at::kBFloat16, at::kBFloat16, at::kBFloat16), 8e-3,
                                2);
  }
}

TEST(PlainLinear, GradientsAreDerivatives) {
  test::expect_gradients(linear_of(9, 13, 7, at::kFloat, at::kFloat, at::kFloat));
}

TEST(PlainLinear, TransposedFusedIsTheSame) {
  const Comparison comparison = {
      {random({40, 17}, 1)}, {random({17, 33}, 2) * 0.3, random({33}, 3)}, [](const auto& x, auto& w) {
        const Projection projection{&w[0], &w[1], true};
        return linear(x[0], projection, at::kFloat)[0];
      }};
  test::expect_fused_is_plain(comparison, 2e-6, 2);
  test::expect_gradients(comparison);
}

struct Looked {
  at::Tensor y, grad;
};
Looked look_up(const at::Tensor& ids, const at::Tensor& table, const EmbeddingOptions& options,
               test::Path path) {
  const test::PathScope scope(path);
  test::Parameter w = test::parameter(table, table.scalar_type());
  w.padding_row = 3;
  const at::Tensor y = embedding(at::zeros({}).requires_grad_(), ids, w, options);
  y.backward(random(y.sizes(), 9).to(y.scalar_type()));
  return {y.detach(), w.gradient()};
}

TEST(PlainEmbedding, FusedIsTheSame) {
  const at::Tensor ids = at::tensor({5, 3, 5, 0, 10, 3, 5}, at::kInt);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const EmbeddingOptions& options :
         {EmbeddingOptions{}, {.noise = {0.25, 77}}, {.scale = 5.7445626}, {.multiplier = 12}}) {
      const at::Tensor table = random({11, 33}, 1, type);
      const Looked want = look_up(ids, table, options, test::Path::plain);
      test::each_table([&] {
        const Looked got = look_up(ids, table, options, test::Path::fused);
        EXPECT_TRUE(same_bits(got.y, want.y));
        EXPECT_LT(test::error_of(got.grad, want.grad), type == at::kFloat ? 1e-6 : 8e-3);
        EXPECT_EQ(got.grad[3].abs().sum().item<float>(), 0.0f);
        EXPECT_EQ(want.grad[3].abs().sum().item<float>(), 0.0f);
      });
    }
  }
}

TEST(PlainEmbedding, AnIdOutsideTheVocabularyIsAnError) {
  const test::PathScope scope(test::Path::plain);
  test::Parameter w = test::parameter(random({4, 2}, 1));
  EXPECT_THROW(embedding(at::zeros({}), at::tensor({4}, at::kInt), w), Error);
}

TEST(PlainLinear, FrozenWeightGetsNoGradient) {
  const test::PathScope scope(test::Path::plain);
  test::Parameter w("frozen", random({4, 8}, 1));
  const at::Tensor x = test::leaf(random({3, 8}, 2));
  const at::Tensor y = linear(x, w, nullptr, at::kFloat);
  EXPECT_LT(
      test::error_of(torch::autograd::grad({y}, {x}, {at::ones_like(y)})[0], w.read()->sum(0).expand({3, 8})),
      1e-6);
  EXPECT_FALSE(w.has_gradient());
}

TEST(Path, AScopeIsOfItsThreadAndEnds) {
  EXPECT_EQ(path(), Path::fused);
  {
    const PathScope outer(Path::plain);
    EXPECT_EQ(path(), Path::plain);
    std::thread([] { EXPECT_EQ(path(), Path::fused); }).join();
    {
      const PathScope inner(Path::fused);
      EXPECT_EQ(path(), Path::fused);
    }
    EXPECT_EQ(path(), Path::plain);
    EXPECT_FALSE(fused(at::zeros({1})));
  }
  EXPECT_TRUE(fused(at::zeros({1})));
}

}  // namespace
}  // namespace trl::kernels
