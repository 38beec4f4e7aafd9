// Low-rank terms of an embedding: against the definition, and fused against plain.
#include "kernels/compare.h"

namespace trl::kernels {
namespace {

using test::error_of;
using test::Parameter;
using test::parameter;
using test::random;

struct LookedUp {
  at::Tensor y, da, db;
};

LookedUp look_up_with_terms(const at::Tensor& ids, at::ScalarType type, const EmbeddingOptions& like,
                            test::Path path) {
  const test::PathScope scope(path);
  Parameter w("frozen", random({11, 33}, 1, type)), a = parameter(random({3, 11}, 2)),
                                                    b = parameter(random({33, 3}, 3));
  w.padding_row = 4;
  EmbeddingOptions options = like;
  options.low_rank = {&a, &b, 0.5};
  const at::Tensor y = embedding(at::zeros({}).requires_grad_(), ids, w, options);
  y.backward(random(y.sizes(), 9).to(type));
  EXPECT_FALSE(w.has_gradient());
  return {y.detach(), a.gradient(), b.gradient()};
}

TEST(EmbeddingTerms, AreTheDefinitionOnEachPath) {
  const at::Tensor ids = at::tensor({5, 3, 5, 0, 10, 4, 5}, at::kInt), at = ids.to(at::kLong);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const EmbeddingOptions& options : {EmbeddingOptions{}, {.scale = 5.5, .multiplier = 3}}) {
      const double factor = options.scale * options.multiplier;
      const at::Tensor w = random({11, 33}, 1, type).to(at::kDouble), a = random({3, 11}, 2).to(at::kDouble),
                       b = random({33, 3}, 3).to(at::kDouble);
      const at::Tensor dy = random({7, 33}, 9).to(type).to(at::kDouble) * factor;
      const at::Tensor columns = a.index_select(1, at).t();
      const at::Tensor want = (w.index_select(0, at) + 0.5 * columns.mm(b.t())) * factor;
      at::Tensor d_columns = 0.5 * dy.mm(b);
      d_columns[5].zero_();  // the lookup of the padding row
      const at::Tensor da = at::zeros({3, 11}, at::kDouble).index_add(1, at, d_columns.t());
      for (const test::Path path : {test::Path::fused, test::Path::plain}) {
        const LookedUp got = look_up_with_terms(ids, type, options, path);
        const double limit = type == at::kFloat ? 1e-6 : 1.2e-2;
        EXPECT_LT(error_of(got.y, want), limit);
        EXPECT_LT(error_of(got.da, da), limit);
        EXPECT_LT(error_of(got.db, 0.5 * dy.t().mm(columns)), limit);
      }
    }
  }
}

// A thousand lookups of one id: in bfloat16 the sum would stand still before its end.
TEST(EmbeddingTerms, ABfloat16GradientIsSummedInFloat32) {
  const at::Tensor ids = at::full({1000}, 2, at::kInt);
  const at::Tensor dy = (random({1000, 32}, 2).abs() + 0.5).to(at::kBFloat16);
  Parameter w("frozen", random({4, 32}, 1, at::kBFloat16));
  Parameter a = parameter(random({1, 4}, 2, at::kBFloat16), at::kBFloat16),
            b = parameter(at::ones({32, 1}, at::kBFloat16), at::kBFloat16);
  EmbeddingOptions options;
  options.low_rank = {&a, &b, 1.0};
  embedding(at::zeros({}).requires_grad_(), ids, w, options).backward(dy);
  const double want = dy.to(at::kDouble).sum().item<double>();
  EXPECT_NEAR(a.gradient()[0][2].item<double>(), want, 0x1p-8 * want);
}

// The rows of an adapter stand in the places of the table's, and alone get their gradients.
TEST(OwnRows, AreLookedUpInPlaceOfTheTables) {
  const at::Tensor ids = at::tensor({5, 3, 5, 0, 10, 4, 5}, at::kInt);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const test::Path path : {test::Path::fused, test::Path::plain}) {
      const test::PathScope scope(path);
      Parameter w = parameter(random({11, 33}, 1, type), type),
                own = parameter(random({2, 33}, 2, type), type);
      const OwnRows rows{&own, {10, 5}};
      const at::Tensor y =
          embedding(at::zeros({}).requires_grad_(), ids, w, {.multiplier = 2, .own_rows = &rows});
      const at::Tensor dy = random({7, 33}, 9).to(type);
      y.backward(dy);
      for (int64_t t = 0; t < 7; ++t) {
        const int32_t id = ids[t].item<int32_t>();
        const at::Tensor row = id == 10 ? (*own.read())[0] : id == 5 ? (*own.read())[1] : (*w.read())[id];
        EXPECT_TRUE(test::same_bits(y[t].detach(), row * 2)) << t;
      }
      const double limit = type == at::kFloat ? 1e-6 : 1.2e-2;
      EXPECT_LT(error_of(own.gradient()[0], 2 * dy[4]), limit);
      EXPECT_LT(error_of(own.gradient()[1], 2 * (dy[0] + dy[2] + dy[6])), limit);
      EXPECT_LT(error_of(w.gradient()[3], 2 * dy[1]), limit);
      EXPECT_EQ(w.gradient()[5].abs().sum().item<float>(), 0);
    }
  }
}

}  // namespace
}  // namespace trl::kernels
