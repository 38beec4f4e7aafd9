// Trees of segments, against rows by themselves that hold all segments from the first of a tree to one.
#include <random>

#include "kernels/attention_run.h"
#include "kernels/compare.h"

namespace trl::kernels::tree_attention_test {
namespace {

using test::attend;
using test::Attended;
using test::each_table;
using test::random;
using test::same_bits;
using test::Threads;
using test::tolerance;

struct Segment {
  int64_t length;
  int32_t prefix = -1, padding = 0;
};

struct Case {
  std::vector<Segment> segments;
  int64_t heads, kv_heads, head_dim, window;
  double softcap = 0;

  int64_t tokens() const {
    int64_t sum = 0;
    for (const Segment& s : segments) sum += s.length;
    return sum;
  }
};

SegmentsPtr segments_of(const Case& c) {
  auto s = std::make_shared<Segments>();
  s->cu_seqlens.push_back(0);
  for (const Segment& d : c.segments) {
    s->cu_seqlens.push_back(s->cu_seqlens.back() + static_cast<int32_t>(d.length));
    s->max_length = std::max(s->max_length, d.length);
    s->prefix.push_back(d.prefix);
    if (std::ranges::any_of(c.segments, [](const Segment& any) { return any.padding > 0; }))
      s->padding.push_back(d.padding);
  }
  return s;
}

// The rows of a segment, after those of the ones that it continues.
at::Tensor path_to(const Case& c, const std::vector<int32_t>& cu, size_t segment) {
  std::vector<at::Tensor> rows;
  for (auto s = static_cast<int32_t>(segment); s >= 0; s = c.segments[static_cast<size_t>(s)].prefix)
    rows.insert(rows.begin(),
                at::arange(cu[static_cast<size_t>(s)], cu[static_cast<size_t>(s) + 1], at::kLong));
  return at::cat(rows);
}

// Each segment after copies of what it continues, whose own outputs get no gradient, in float32; what the
// copies of a token receive is summed in double.
Attended apart(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& d_out,
               const Case& c, const AttentionOptions& options) {
  const auto zeros = [](const at::Tensor& x) { return at::zeros(x.sizes(), at::kDouble); };
  Attended sums{zeros(q), zeros(q), zeros(k), zeros(v)};
  const std::vector<int32_t> cu = segments_of(c)->cu_seqlens;
  for (size_t i = 0; i < c.segments.size(); ++i) {
    const at::Tensor index = path_to(c, cu, i);
    const int64_t own = c.segments[i].length, before = index.numel() - own;
    const auto rows = [&](const at::Tensor& x) { return x.to(at::kFloat).index_select(0, index); };
    at::Tensor d = rows(d_out);
    d.narrow(0, 0, before).zero_();
    const Attended r = attend(rows(q), rows(k), rows(v), d, test::segments({before + own}), options);
    sums.out.narrow(0, cu[i], own).copy_(r.out.narrow(0, before, own));
    sums.dq.index_add_(0, index, r.dq.to(at::kDouble));
    sums.dk.index_add_(0, index, r.dk.to(at::kDouble));
    sums.dv.index_add_(0, index, r.dv.to(at::kDouble));
  }
  return sums;
}

const Case kCases[] = {
    {{{5}, {3, 0}, {4, 0}}, 1, 1, 16, 0},
    {{{64}, {64, 0}, {1, 0}, {65, 0}}, 4, 2, 20, 0},
    {{{130}, {7, 0}, {300, 0}, {40}, {9, 3}, {70, 3}, {33}}, 9, 3, 64, 0},
    {{{100}, {30, 0}, {90, 0}}, 2, 1, 16, 40},  // the window ends within the prefix, or after it
    {{{70}, {20, 0}, {90, 1}, {1, 1}, {65, 3}, {64, 0}, {64, 5}}, 4, 2, 32, 0},
    {{{30}, {20, 0}, {90, 1}, {1, 1}, {65, 3}, {64, 0}, {64, 5}}, 3, 1, 20, 25, 2},  // windows of four
                                                                                     // segments
    {{{0}, {5, 0}, {6, 0}}, 2, 2, 16, 0},
    {{{5}, {0, 0}, {6, 0}}, 2, 2, 16, 0},
    {{{70}, {30, 0}, {9, 0}}, 2, 1, 16, 0, 1.5},
};

// Trees of up to four segments from the first to the last, with lengths that are now below a block and now
// above it, and windows.
std::vector<Case> random_cases(int64_t count) {
  std::mt19937 random(7);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint32_t>(n)); };
  std::vector<Case> cases;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t kv_heads = 1 + below(2);
    Case c{{}, kv_heads * (1 + below(3)), kv_heads, 8 + below(30), below(2) * (1 + below(120))};
    if (below(4) == 0) c.softcap = 1.5;
    const int64_t longest = below(2) == 0 ? 12 : 100;
    std::vector<int32_t> path;
    for (int32_t segment = 0; segment < 12; ++segment) {
      path.resize(static_cast<size_t>(below(std::min<int64_t>(std::ssize(path), 3) + 1)));
      c.segments.push_back({below(longest + 1), path.empty() ? -1 : path.back()});
      path.push_back(segment);
    }
    if (c.tokens() > 0) cases.push_back(c);
  }
  return cases;
}

AttentionOptions options_of(const Case& c) {
  return {1.0 / std::sqrt(static_cast<double>(c.head_dim)), c.window, c.softcap};
}

void compare(const std::vector<Case>& cases, at::ScalarType type) {
  int64_t seed = 0;
  for (const Case& c : cases) {
    SCOPED_TRACE(testing::Message() << c.tokens() << " tokens, head_dim " << c.head_dim << ", window "
                                    << c.window);
    const test::AttentionInputs in(c.tokens(), c.heads, c.kv_heads, c.head_dim, seed, type);
    const AttentionOptions options = options_of(c);
    const Attended got = attend(in.q, in.k, in.v, in.d_out, segments_of(c), options);
    const Attended want = apart(in.q, in.k, in.v, in.d_out, c, options);
    test::expect_near(got, want, tolerance(type));
    {
      const Threads one(1);
      test::expect_same_bits(got, attend(in.q, in.k, in.v, in.d_out, segments_of(c), options));
    }
    const test::PathScope plain(Path::plain);
    test::expect_near(attend(in.q, in.k, in.v, in.d_out, segments_of(c), options), want, tolerance(type));
  }
}

TEST(TreeAttention, Float32EqualsRowsApart) { compare({std::begin(kCases), std::end(kCases)}, at::kFloat); }
TEST(TreeAttention, Bfloat16EqualsRowsApart) {
  compare({std::begin(kCases), std::end(kCases)}, at::kBFloat16);
}
TEST(TreeAttention, RandomTreesEqualRowsApart) {
  each_table([] { compare(random_cases(12), at::kFloat); });
  compare(random_cases(40), at::kFloat);
  compare(random_cases(12), at::kBFloat16);
}

// Says which tokens each token sees, by the definition: those of its segment up to itself and those of the
// segments that this continues, but no padding; [tokens, tokens].
at::Tensor visible(const Case& c) {
  const std::vector<int32_t> cu = segments_of(c)->cu_seqlens;
  at::Tensor seen = at::zeros({c.tokens(), c.tokens()}, at::kBool);
  for (size_t i = 0; i < c.segments.size(); ++i) {
    std::vector<int64_t> before;
    for (auto s = static_cast<int32_t>(i); s >= 0; s = c.segments[static_cast<size_t>(s)].prefix) {
      const auto at = static_cast<size_t>(s);
      std::vector<int64_t> own;
      for (int64_t row = cu[at]; row < cu[at + 1] - c.segments[at].padding; ++row) own.push_back(row);
      before.insert(before.begin(), own.begin(), own.end());
    }
    const int64_t above = std::ssize(before) - (c.segments[i].length - c.segments[i].padding);
    for (int64_t row = 0; row < c.segments[i].length; ++row) {
      const int64_t place = above + row;  // in the sequence
      for (int64_t key = 0; key < std::min<int64_t>(place + 1, std::ssize(before)); ++key)
        if (c.window == 0 || place - key < c.window)
          seen[cu[i] + row][before[static_cast<size_t>(key)]] = true;
    }
  }
  return seen;
}

// Attention in double over the whole matrix of scores. A token that sees none gets 0.
Attended by_definition(const test::AttentionInputs& in, const Case& c) {
  const auto wide = [](const at::Tensor& x) { return x.to(at::kDouble).requires_grad_(); };
  const at::Tensor q = wide(in.q), k = wide(in.k), v = wide(in.v), seen = visible(c);
  const auto by_head = [&](const at::Tensor& x) {
    return x.repeat_interleave(c.heads / x.size(1), 1).permute({1, 0, 2});
  };
  const at::Tensor scores = by_head(q).matmul(by_head(k).transpose(1, 2)) * options_of(c).scale;
  const at::Tensor weights = scores.masked_fill(seen.logical_not(), -1e30).softmax(-1);
  const at::Tensor out =
      weights.masked_fill(seen.logical_not(), 0).matmul(by_head(v)).permute({1, 0, 2}).contiguous();
  const auto grads = torch::autograd::grad({out}, {q, k, v}, {in.d_out.to(at::kDouble)});
  return {out.detach(), grads[0], grads[1], grads[2]};
}

const Case kPadded[] = {
    {{{9, -1, 4}}, 1, 1, 16, 0},
    {{{130, -1, 70}, {65}, {64, -1, 1}}, 2, 1, 16, 0},
    {{{20}, {30, 0, 10}, {25, 0}, {70, 0, 64}}, 4, 2, 20, 0},
    {{{64}, {64, 0, 64}, {1, 0, 1}, {65, 0, 64}}, 2, 1, 16, 0},  // blocks of padding alone
    {{{70}, {20, 0}, {90, 1, 40}, {1, 1}, {65, 3, 64}}, 2, 2, 32, 0},
    {{{40}, {100, 0, 90}, {30, 0, 3}}, 2, 1, 16, 25},  // padding that sees none
};

TEST(TreeAttention, PaddingSeesTheOthersAndIsSeenByNone) {
  int64_t seed = 0;
  for (const Case& c : kPadded) {
    SCOPED_TRACE(testing::Message() << c.tokens() << " tokens, window " << c.window);
    const test::AttentionInputs in(c.tokens(), c.heads, c.kv_heads, c.head_dim, seed, at::kFloat);
    const Attended want = by_definition(in, c);
    const auto compare = [&] {
      test::expect_near(attend(in.q, in.k, in.v, in.d_out, segments_of(c), options_of(c)), want,
                        tolerance(at::kFloat));
    };
    each_table(compare);
    const test::PathScope plain(Path::plain);
    compare();
  }
}

TEST(TreeAttention, GradientIsTheSlope) {
  for (const int64_t window : {0, 9}) {
    const Case c{{{9}, {5, 0}, {8, 1}, {3, 1}, {7, 0}}, 2, 1, 8, window, 1.5};
    const test::Comparison comparison{{random({32, 2, 8}, 1), random({32, 1, 8}, 2), random({32, 1, 8}, 3)},
                                      {},
                                      [&](const std::vector<at::Tensor>& x, std::vector<test::Parameter>&) {
                                        return attention(x[0], x[1], x[2], segments_of(c), options_of(c));
                                      }};
    for (const Path path : {Path::fused, Path::plain})
      EXPECT_LT(test::gradient_error(comparison, path, 1e-2), 2e-3);
  }
}

TEST(TreeAttention, SiblingsDoNotSeeEachOther) {
  const Case c{{{20}, {30, 0}, {25, 0}}, 2, 1, 16, 0};
  const at::Tensor q = random({75, 2, 16}, 1), k = random({75, 1, 16}, 2), v = random({75, 1, 16}, 3);
  const at::Tensor before = attention(q, k, v, segments_of(c), {0.25});
  k.narrow(0, 20, 30).add_(1.0);
  const at::Tensor sibling = attention(q, k, v, segments_of(c), {0.25});
  EXPECT_TRUE(same_bits(before.narrow(0, 50, 25), sibling.narrow(0, 50, 25)));
  EXPECT_FALSE(same_bits(before.narrow(0, 20, 30), sibling.narrow(0, 20, 30)));
  v.narrow(0, 0, 20).add_(1.0);
  const at::Tensor prefix = attention(q, k, v, segments_of(c), {0.25});
  EXPECT_FALSE(same_bits(sibling.narrow(0, 50, 25), prefix.narrow(0, 50, 25)));
}

}  // namespace
}  // namespace trl::kernels::tree_attention_test
