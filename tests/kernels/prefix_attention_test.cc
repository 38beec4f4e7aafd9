// Documents that share a prefix, against plain rows [prefix | document] that do not.
#include "kernels/attention_run.h"

namespace trl::kernels::prefix_attention_test {
namespace {

using test::attend;
using test::Attended;
using test::random;
using test::same_bits;
using test::Threads;
using test::tolerance;

struct Document {
  int64_t length;
  int32_t prefix = -1;
};

struct Case {
  std::vector<Document> documents;
  int64_t heads, kv_heads, head_dim, window;
  double softcap = 0;
};

SegmentsPtr segments_of(const Case& c) {
  auto s = std::make_shared<Segments>();
  s->cu_seqlens.push_back(0);
  for (const Document& d : c.documents) {
    s->cu_seqlens.push_back(s->cu_seqlens.back() + static_cast<int32_t>(d.length));
    s->max_length = std::max(s->max_length, d.length);
    s->prefix.push_back(d.prefix);
  }
  return s;
}

// Each document behind a copy of its prefix whose own outputs get no gradient, in float32; what the copies
// of a token receive is summed in double.
Attended apart(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& d_out,
               const Case& c, const AttentionOptions& options) {
  const auto zeros = [](const at::Tensor& x) { return at::zeros(x.sizes(), at::kDouble); };
  Attended sums{zeros(q), zeros(q), zeros(k), zeros(v)};
  const std::vector<int32_t> cu = segments_of(c)->cu_seqlens;
  for (size_t i = 0; i < c.documents.size(); ++i) {
    const Document& own = c.documents[i];
    const int64_t before = own.prefix < 0 ? 0 : c.documents[static_cast<size_t>(own.prefix)].length;
    const int64_t first = own.prefix < 0 ? 0 : cu[static_cast<size_t>(own.prefix)];
    const at::Tensor index = at::cat(
        {at::arange(first, first + before, at::kLong), at::arange(cu[i], cu[i] + own.length, at::kLong)});
    const auto rows = [&](const at::Tensor& x) { return x.to(at::kFloat).index_select(0, index); };
    at::Tensor d = rows(d_out);
    d.narrow(0, 0, before).zero_();
    auto plain = std::make_shared<Segments>();
    plain->cu_seqlens = {0, static_cast<int32_t>(before + own.length)};
    plain->max_length = before + own.length;
    const Attended r = attend(rows(q), rows(k), rows(v), d, plain, options);
    sums.out.narrow(0, cu[i], own.length).copy_(r.out.narrow(0, before, own.length));
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
    {{{20}, {50}, {3, 0}, {100, 1}, {65, 0}}, 2, 1, 32, 0},  // branches of two prefixes mixed
    {{{100}, {30, 0}, {90, 0}}, 2, 1, 16, 40},               // the window ends within the prefix, or after it
    {{{0}, {5, 0}, {6, 0}}, 2, 2, 16, 0},
    {{{5}, {0, 0}, {6, 0}}, 2, 2, 16, 0},
    {{{70}, {30, 0}, {9, 0}}, 2, 1, 16, 0, 1.5},
};

void compare(at::ScalarType type) {
  int64_t seed = 0;
  for (const Case& c : kCases) {
    int64_t tokens = 0;
    for (const Document& d : c.documents) tokens += d.length;
    SCOPED_TRACE(testing::Message() << tokens << " tokens, head_dim " << c.head_dim);
    const test::AttentionInputs in(tokens, c.heads, c.kv_heads, c.head_dim, seed, type);
    const AttentionOptions options{1.0 / std::sqrt(static_cast<double>(c.head_dim)), c.window, c.softcap};
    const Attended got = attend(in.q, in.k, in.v, in.d_out, segments_of(c), options);
    test::expect_near(got, apart(in.q, in.k, in.v, in.d_out, c, options), tolerance(type));
    const Threads one(1);
    test::expect_same_bits(got, attend(in.q, in.k, in.v, in.d_out, segments_of(c), options));
  }
}

TEST(PrefixAttention, Float32EqualsRowsApart) { compare(at::kFloat); }
TEST(PrefixAttention, Bfloat16EqualsRowsApart) { compare(at::kBFloat16); }

TEST(PrefixAttention, SiblingsDoNotSeeEachOther) {
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
}  // namespace trl::kernels::prefix_attention_test
