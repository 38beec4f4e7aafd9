#include "kernels/attention_run.h"
#include "kernels/compare.h"
#include "tensor/counting_host.h"

namespace trl::kernels {
namespace {

using test::attend;
using test::Attended;
using test::check_gradient;
using test::error_of;
using test::leaf;
using test::random;
using test::same_bits;
using test::Threads;
using test::tolerance;

struct Case {
  std::vector<int64_t> lengths;
  int64_t heads, kv_heads, head_dim, window;
  double softcap = 0;
};

SegmentsPtr segments_of(const Case& c) { return test::segments(c.lengths); }

at::Tensor reference(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Case& c,
                     double scale) {
  std::vector<at::Tensor> parts;
  int64_t start = 0;
  for (const int64_t length : c.lengths) {
    const int64_t group = c.heads / c.kv_heads;
    const auto part = [&](const at::Tensor& x) { return x.narrow(0, start, length).transpose(0, 1); };
    const at::Tensor keys = part(k).repeat_interleave(group, 0), values = part(v).repeat_interleave(group, 0);
    at::Tensor scores = part(q).matmul(keys.transpose(1, 2)) * scale;
    if (c.softcap > 0) scores = (scores / c.softcap).tanh() * c.softcap;
    at::Tensor visible = at::ones({length, length}, at::kBool).tril();
    if (c.window > 0) visible = visible.logical_and(at::ones({length, length}, at::kBool).triu(1 - c.window));
    const at::Tensor weights = scores.masked_fill(visible.logical_not(), -1e300).softmax(-1);
    parts.push_back(weights.matmul(values).transpose(0, 1));
    start += length;
  }
  return at::cat(parts, 0);
}

AttentionOptions options_of(const Case& c, double scale) { return {scale, c.window, c.softcap}; }

const Case kCases[] = {
    {{1}, 1, 1, 16, 0},        {{2, 1, 3, 1}, 4, 2, 20, 0}, {{63}, 2, 2, 64, 0},
    {{64, 65}, 2, 1, 64, 0},   {{300}, 9, 3, 64, 0},        {{100, 1, 17, 130}, 6, 2, 80, 0},
    {{257, 31}, 8, 1, 128, 0}, {{129, 5}, 3, 3, 15, 0},     {{300, 9, 64}, 4, 2, 64, 8},
    {{200}, 2, 1, 32, 70},     {{40, 128}, 2, 2, 16, 1},    {{0, 5, 0}, 2, 2, 16, 0},
    {{70, 3}, 2, 1, 16, 0, 2}, {{150}, 4, 2, 64, 40, 0.5},
};

void compare(at::ScalarType type) {
  int64_t seed = 0;
  for (const Case& c : kCases) {
    SCOPED_TRACE(testing::Message() << "head_dim " << c.head_dim << " first length " << c.lengths[0]
                                    << " window " << c.window);
    int64_t tokens = 0;
    for (const int64_t length : c.lengths) tokens += length;
    const test::AttentionInputs in(tokens, c.heads, c.kv_heads, c.head_dim, seed, type);
    const double scale = 1.0 / std::sqrt(static_cast<double>(c.head_dim));
    const Attended got = attend(in.q, in.k, in.v, in.d_out, segments_of(c), options_of(c, scale));
    const auto exact = [](const at::Tensor& x) { return leaf(x.to(at::kDouble)); };
    const at::Tensor q = exact(in.q), k = exact(in.k), v = exact(in.v), want = reference(q, k, v, c, scale);
    const auto grads = torch::autograd::grad({want}, {q, k, v}, {in.d_out.to(at::kDouble)});
    EXPECT_EQ(got.out.scalar_type(), type);
    EXPECT_EQ(got.dk.scalar_type(), type);
    test::expect_near(got, {want, grads[0], grads[1], grads[2]}, tolerance(type));
    // The sum of the saved bits is the same whatever the number of threads.
    for (const int threads : {1, 3, 8}) {
      const Threads some(threads);
      test::expect_same_bits(got, attend(in.q, in.k, in.v, in.d_out, segments_of(c), options_of(c, scale)));
    }
  }
}

TEST(Attention, Float32MatchesPlainSoftmax) { compare(at::kFloat); }
TEST(Attention, Bfloat16MatchesPlainSoftmax) { compare(at::kBFloat16); }

// Gradients of keys exist in float32 of the heads that are at work, and once of each head of keys: not of all
// query heads.
TEST(Attention, BackwardHoldsNothingOfAllHeadsInFloat32) {
  constexpr int64_t kTokens = 2048, kHeads = 16, kKeyHeads = 2, kDim = 32;
  int64_t seed = 0;
  const test::AttentionInputs in(kTokens, kHeads, kKeyHeads, kDim, seed, at::kBFloat16);
  const Case one{{kTokens}, kHeads, kKeyHeads, kDim, 0};
  const Threads two(2);
  test::CountingHost host;
  tensor::set_host(&host);
  attend(in.q, in.k, in.v, in.d_out, segments_of(one), options_of(one, 0.2));
  tensor::set_host(nullptr);
  const int64_t results = kTokens * kDim * 2 * (2 * kHeads + 2 * kKeyHeads);  // out, dq, dk, dv
  EXPECT_LT(host.counter.peak(), results + 2 * 4 * kTokens * kDim * (kHeads - kKeyHeads));
}

TEST(Attention, LargeScoresStayFinite) {
  const Case c{{70}, 1, 1, 16, 0};
  const at::Tensor q = random({70, 1, 16}, 1) * 100, k = random({70, 1, 16}, 2) * 100,
                   v = random({70, 1, 16}, 3);
  const Attended got = attend(q, k, v, random({70, 1, 16}, 4), segments_of(c), options_of(c, 1.0));
  EXPECT_LT(error_of(got.out, reference(q.to(at::kDouble), k.to(at::kDouble), v.to(at::kDouble), c, 1.0)),
            1e-5);
  EXPECT_TRUE(at::isfinite(got.dq).all().item<bool>());
}

TEST(Attention, DocumentsDoNotSeeEachOther) {
  const Case c{{37, 50}, 2, 1, 16, 0};
  const at::Tensor q = random({87, 2, 16}, 1), k = random({87, 1, 16}, 2), v = random({87, 1, 16}, 3);
  const at::Tensor before = attention(q, k, v, segments_of(c), {0.25, 0});
  k.narrow(0, 0, 37).add_(1.0);
  v.narrow(0, 0, 37).add_(1.0);
  const at::Tensor after = attention(q, k, v, segments_of(c), {0.25, 0});
  EXPECT_TRUE(same_bits(before.narrow(0, 37, 50), after.narrow(0, 37, 50)));
  EXPECT_FALSE(same_bits(before.narrow(0, 0, 37), after.narrow(0, 0, 37)));
}

TEST(Attention, GradientIsTheSlope) {
  for (const double softcap : {0.0, 1.5}) {
    const Case c{{9, 14}, 2, 1, 8, 0, softcap};
    const at::Tensor q = random({23, 2, 8}, 1), k = random({23, 1, 8}, 2), v = random({23, 1, 8}, 3);
    const at::Tensor d = random({23, 2, 8}, 4);
    const Attended got = attend(q, k, v, d, segments_of(c), options_of(c, 0.4));
    const auto out = [&](const at::Tensor& qs, const at::Tensor& ks, const at::Tensor& vs) {
      return attention(qs, ks, vs, segments_of(c), {0.4, 0, softcap});
    };
    check_gradient(q, d, got.dq, [&](const at::Tensor& at) { return out(at, k, v); });
    check_gradient(k, d, got.dk, [&](const at::Tensor& at) { return out(q, at, v); });
    check_gradient(v, d, got.dv, [&](const at::Tensor& at) { return out(q, k, at); });
  }
}

TEST(Attention, WrongSegmentsAreRefused) {
  const at::Tensor x = random({4, 1, 16}, 1);
  const auto bad = [&](std::vector<int32_t> cu, int64_t longest) {
    EXPECT_THROW(attention(x, x, x, std::make_shared<Segments>(Segments{std::move(cu), longest}), {}), Error);
  };
  bad({}, 4);
  bad({0, 3}, 4);
  bad({0, 5}, 5);
  bad({0, 3, 2, 4}, 4);
  bad({0, 4}, 3);
  const auto bad_prefix = [&](std::vector<int32_t> prefix) {
    EXPECT_THROW(
        attention(x, x, x, std::make_shared<Segments>(Segments{{0, 1, 3, 4}, 2, std::move(prefix)}), {}),
        Error);
  };
  bad_prefix({-1, 0});
  bad_prefix({0, -1, -1});
  bad_prefix({-1, 2, -1});
  bad_prefix({-1, -1, 0});
  bad_prefix({-1, 0, 2});
  bad_prefix({-2, 0, 0});
}

}  // namespace
}  // namespace trl::kernels
