// Products of a frozen weight in 8-bit codes: against the product of the codes in double, and within what the
// rounding to codes can make of the product of the numbers.
#include "kernels/compare.h"
#include "kernels/gemm/gemm_int8.h"

namespace trl::kernels {
namespace {

using test::random;
using test::same_bits;

#define TRL_NEED_INT8()                                                                    \
  if (!has_int8_products()) {                                                              \
    GTEST_SKIP() << "this processor has no products in 8-bit integers (AVX512-VNNI, AMX)"; \
  }

struct ProductShape {
  int64_t tokens, out, in;
};
constexpr ProductShape kProductShapes[] = {{1, 70, 33},    {3, 1, 7},        {64, 5, 4},
                                           {65, 192, 576}, {300, 1300, 577}, {20, 896, 4864}};

// What codes stand for, in double: each row rounded to 127 steps of its largest value.
struct Rounded {
  at::Tensor values, step;  // [rows, columns], [rows, 1]
  explicit Rounded(const at::Tensor& x) {
    const at::Tensor most = x.to(at::kFloat).abs().amax(1, true);
    const at::Tensor scale = at::where(most > 0, 127 / most, at::zeros_like(most));
    step = (most / 127).to(at::kDouble);
    values = (x.to(at::kFloat) * scale).round().to(at::kDouble) * step;
  }
};

// y and the largest difference that rounding both sides to codes can make, element by element: half a step of
// either side, in each term.
struct Expected {
  at::Tensor y, bound;
  Expected(const at::Tensor& x, const at::Tensor& w) {  // x w^T
    const Rounded a(x), b(w);
    y = a.values.mm(b.values.t());
    exact = x.to(at::kDouble).mm(w.to(at::kDouble).t());
    const at::Tensor terms = at::full({1, 1}, static_cast<double>(x.size(1)), at::kDouble);
    bound = (x.to(at::kDouble).abs().sum(1, true) * b.step.t() +
             a.step * w.to(at::kDouble).abs().sum(1).unsqueeze(0)) /
                2 +
            a.step * b.step.t() * terms / 4;
  }
  at::Tensor exact;
};

void expect_near(const at::Tensor& got, const Expected& want, const std::string& what) {
  const at::Tensor y = got.to(at::kDouble);
  // A result in bfloat16 is rounded once, by at most 2^-8 of itself.
  EXPECT_LT(test::error_of(y, want.y), 4e-3) << what;
  const at::Tensor slack = want.bound + (want.exact.abs() + want.bound) * 0x1p-8 + 1e-9;
  EXPECT_TRUE(((y - want.exact).abs() <= slack).all().item<bool>()) << what;
}

TEST(Int8Products, AreThoseOfTheCodes) {
  TRL_NEED_INT8();
  test::each_table([] {
    for (const auto& [tokens, out, in] : kProductShapes) {
      for (const at::ScalarType stream : {at::kBFloat16, at::kFloat}) {
        const std::string what =
            fmt::format("{} tokens, {} x {}, {}", tokens, out, in, c10::toString(stream));
        const at::Tensor w = random({out, in}, 1).to(at::kBFloat16);
        const at::Tensor x = random({tokens, in}, 2).to(at::kBFloat16),
                         dy = random({tokens, out}, 3).to(at::kBFloat16);
        Parameter weight("w", w);
        Projection p{&weight};
        const Int8Products products(p);
        p.int8 = &products;
        const at::Tensor input = test::leaf(x.to(stream));
        const at::Tensor y = linear(input, p, at::kBFloat16)[0];
        expect_near(y, Expected(x, w), what);
        const at::Tensor dx = torch::autograd::grad({y}, {input}, {dy})[0];
        EXPECT_EQ(dx.scalar_type(), stream);
        // The steps of the weight's rows go into dy: what is rounded there is their product.
        const Rounded codes(w);
        const at::Tensor folded = (dy.to(at::kFloat) * codes.step.t().to(at::kFloat));
        const at::Tensor want = Rounded(folded).values.mm(codes.values / codes.step.clamp_min(1e-30));
        EXPECT_LT(test::error_of(dx, want), 4e-3) << what;
      }
    }
  });
}

TEST(Int8Products, TakeBiasesAndSeveralProjections) {
  TRL_NEED_INT8();
  const at::Tensor x = random({130, 96}, 1).to(at::kBFloat16);
  Parameter q("q", random({96, 96}, 2).to(at::kBFloat16)), k("k", random({32, 96}, 3).to(at::kBFloat16)),
      v("v", random({96, 48}, 4)), bias("b", random({32}, 5).to(at::kBFloat16));
  std::vector<Projection> all = {{&q}, {&k, &bias}, {&v, nullptr, true}};
  std::vector<std::unique_ptr<Int8Products>> products;
  for (Projection& p : all) p.int8 = products.emplace_back(std::make_unique<Int8Products>(p)).get();
  const at::Tensor input = test::leaf(x);
  const std::vector<at::Tensor> y = linear(input, all, at::kBFloat16);
  expect_near(y[0], Expected(x, *q.read()), "q");
  Expected of_k(x, *k.read());
  of_k.y += bias.read()->to(at::kDouble);
  of_k.exact += bias.read()->to(at::kDouble);
  expect_near(y[1], of_k, "k");
  expect_near(y[2], Expected(x, v.read()->t()), "v");
  // The gradient is the sum of those of each alone.
  std::vector<at::Tensor> dy;
  at::Tensor sum = at::zeros({130, 96}, at::kDouble);
  for (size_t i = 0; i < all.size(); ++i) {
    dy.push_back(random(y[i].sizes(), 10 + static_cast<int64_t>(i)).to(at::kBFloat16));
    const at::Tensor alone = test::leaf(x);
    const at::Tensor part = linear(alone, all[i], at::kBFloat16)[0];
    EXPECT_TRUE(same_bits(part, y[i])) << i;
    sum += torch::autograd::grad({part}, {alone}, {dy.back()})[0].to(at::kDouble);
  }
  EXPECT_LT(test::error_of(torch::autograd::grad(y, {input}, dy)[0], sum), 1e-2);
}

// Terms that an adapter adds are in bfloat16, and rounded together with the product.
TEST(Int8Products, TakeLowRankTermsIntoTheSum) {
  TRL_NEED_INT8();
  for (const auto& [tokens, out, in] : {ProductShape{1, 70, 33}, {65, 192, 576}, {300, 1300, 96}}) {
    SCOPED_TRACE(fmt::format("{} tokens, {} x {}", tokens, out, in));
    const at::Tensor x = random({tokens, in}, 1).to(at::kBFloat16),
                     dy = random({tokens, out}, 2).to(at::kBFloat16);
    Parameter w("w", random({out, in}, 3).to(at::kBFloat16)), v("v", random({out, in}, 4).to(at::kBFloat16)),
        bias("b", random({out}, 5).to(at::kBFloat16)), a("a", random({8, in}, 6).to(at::kBFloat16)),
        b("b", random({out, 8}, 7).to(at::kBFloat16)), a2("a2", random({3, in}, 8).to(at::kBFloat16)),
        b2("b2", random({out, 3}, 9).to(at::kBFloat16));
    std::vector<Projection> all = {{&w, &bias, false, {&a, &b, 2.0}}, {&v, nullptr, false, {&a2, &b2, 0.5}}};
    const Int8Products of_w(all[0]), of_v(all[1]);
    const auto run = [&] {
      const at::Tensor input = test::leaf(x);
      std::vector<at::Tensor> y = linear(input, all, at::kBFloat16);
      y.push_back(torch::autograd::grad({y[0], y[1]}, {input}, {dy, dy})[0]);
      return y;
    };
    const auto alone = [&](bool terms) {
      std::vector<Projection> kept = all;
      for (Projection& p : all) {
        if (!terms) p.low_rank = {};
        if (terms) p.int8 = nullptr;
      }
      std::vector<at::Tensor> y = run();
      all = kept;
      return y;
    };
    const std::vector<at::Tensor> in_bfloat16 = alone(true);
    all[0].int8 = &of_w;
    all[1].int8 = &of_v;
    const std::vector<at::Tensor> got = run(), without = alone(false);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_LT(test::error_of(got[i], in_bfloat16[i].to(at::kDouble)), 2e-2) << i;
      EXPECT_GT(test::error_of(without[i], in_bfloat16[i].to(at::kDouble)), 2e-1) << i;
    }
    // What is added in bfloat16 is exact except for the rounding of the reduced x and of the result.
    const at::Tensor added = got[0].to(at::kDouble) - without[0].to(at::kDouble);
    const at::Tensor reduced = (x.to(at::kDouble).mm(a.read()->to(at::kDouble).t()) * 2).to(at::kBFloat16);
    EXPECT_LT(test::error_of(added, reduced.to(at::kDouble).mm(b.read()->to(at::kDouble).t())), 6e-3);
  }
}

// A row of a batch is what it is alone, and as many threads as there are compute the same.
TEST(Int8Products, DependOnTheRowAlone) {
  TRL_NEED_INT8();
  const at::Tensor x = random({700, 100}, 1).to(at::kBFloat16);
  Parameter weight("w", random({1400, 100}, 2).to(at::kBFloat16));
  Projection p{&weight};
  const Int8Products products(p);
  p.int8 = &products;
  const at::Tensor whole = linear(x, p, at::kBFloat16)[0];
  for (const int threads : {1, 2, 5}) {
    const test::Threads scope(threads);
    EXPECT_TRUE(same_bits(linear(x, p, at::kBFloat16)[0], whole)) << threads;
    for (const int64_t count : {1, 16, 17, 64, 129})
      EXPECT_TRUE(same_bits(linear(x.narrow(0, 3, count), p, at::kBFloat16)[0], whole.narrow(0, 3, count)))
          << threads << " threads, " << count << " rows";
  }
  EXPECT_EQ(linear(x.narrow(0, 0, 0), p, at::kBFloat16)[0].size(0), 0);
}

TEST(Int8Products, KeepWhatIsNotFinite) {
  TRL_NEED_INT8();
  at::Tensor x = random({4, 70}, 1).to(at::kBFloat16);
  Parameter weight("w", random({50, 70}, 2).to(at::kBFloat16));
  Projection p{&weight};
  const Int8Products products(p);
  p.int8 = &products;
  const at::Tensor before = linear(x, p, at::kBFloat16)[0];
  x[1][69] = std::numeric_limits<float>::quiet_NaN();
  x[2][0] = std::numeric_limits<float>::infinity();
  x[3].zero_();
  const at::Tensor y = linear(x, p, at::kBFloat16)[0];
  EXPECT_TRUE(same_bits(y[0], before[0]));
  EXPECT_FALSE(at::isfinite(y[1]).any().item<bool>());
  EXPECT_FALSE(at::isfinite(y[2]).any().item<bool>());
  EXPECT_TRUE(y[3].eq(0).all().item<bool>());
}

TEST(Int8Products, AreOfOneWeightAndOfBfloat16) {
  TRL_NEED_INT8();
  const at::Tensor x = random({40, 70}, 1);
  Parameter weight("w", random({50, 70}, 2)), other("other", random({50, 70}, 3));
  Projection p{&weight};
  const Int8Products products(p);
  const at::Tensor wide = linear(x, p, at::kFloat)[0];
  p.int8 = &products;
  EXPECT_TRUE(same_bits(linear(x, p, at::kFloat)[0], wide));
  Projection replaced{&other};
  const at::Tensor want = linear(x, replaced, at::kBFloat16)[0];
  replaced.int8 = &products;
  EXPECT_TRUE(same_bits(linear(x, replaced, at::kBFloat16)[0], want));
}

}  // namespace
}  // namespace trl::kernels
