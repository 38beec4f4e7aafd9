// Dropout of attention's weights, against PyTorch's operators with the mask that the counter gives.
#include "base/arithmetic/counter_random.h"
#include "kernels/attention/attention_plugin.h"
#include "kernels/attention_run.h"
#include "kernels/compare.h"
#include "support/error_of.h"
#include "tensor/counting_host.h"

namespace trl::kernels::attention_dropout_test {
namespace {

using test::attend;
using test::Attended;
using test::each_table;
using test::leaf;
using test::random;
using test::tolerance;

struct Case {
  std::vector<int64_t> lengths;
  std::vector<int32_t> prefix;
  int64_t heads, kv_heads, head_dim, window;
  double softcap, rate;

  int64_t tokens() const {
    int64_t sum = 0;
    for (const int64_t length : lengths) sum += length;
    return sum;
  }
  SegmentsPtr segments() const {
    const auto made = std::make_shared<Segments>(*test::segments(lengths));
    made->prefix = prefix;
    return made;
  }
  AttentionOptions options() const {
    AttentionOptions made{1 / std::sqrt(static_cast<double>(head_dim)), window, softcap};
    made.dropout = {rate, 0xfedcba9876543210};
    return made;
  }
};

const Case kCases[] = {
    {{1}, {}, 1, 1, 16, 0, 0, 0.5},
    {{65, 1, 130}, {}, 4, 2, 20, 0, 0, 0.1},
    {{200}, {}, 3, 1, 64, 70, 0, 0.3},
    {{100, 30}, {}, 2, 2, 33, 0, 1.5, 0.2},
    {{64, 7, 90, 12}, {-1, 0, 0, -1}, 4, 2, 16, 0, 0, 0.4},
    {{100, 90, 31}, {-1, 0, 0}, 2, 1, 16, 40, 2, 0.25},
    {{70}, {}, 2, 1, 16, 0, 0, 1},
};

// What each weight is multiplied by: [heads, tokens, tokens], double.
at::Tensor factors(const Case& c) {
  const int64_t tokens = c.tokens();
  at::Tensor made = at::zeros({c.heads, tokens, tokens}, at::kDouble);
  const auto below = static_cast<uint32_t>(std::lround(c.rate * 16777216));
  for (int64_t head = 0; head < c.heads; ++head) {
    for (int64_t query = 0; query < tokens; ++query) {
      const auto row = static_cast<uint64_t>(query * c.heads + head);
      const base::CounterKey key = base::counter_key({c.options().dropout.key, row});
      for (int64_t s = 0; s < tokens; ++s) {
        if (base::counter_bits(key, static_cast<uint32_t>(s)) / 256 >= below)
          made[head][query].data_ptr<double>()[s] = 1 / (1 - c.rate);
      }
    }
  }
  return made;
}

// [tokens, tokens]: a document sees itself backwards, and its prefix before that.
at::Tensor visible(const Case& c) {
  const std::vector<int32_t> cu = c.segments()->cu_seqlens;
  at::Tensor made = at::zeros({c.tokens(), c.tokens()}, at::kBool);
  for (size_t d = 0; d < c.lengths.size(); ++d) {
    const bool behind = !c.prefix.empty() && c.prefix[d] >= 0;
    const auto before = behind ? static_cast<size_t>(c.prefix[d]) : d;
    const int64_t shared = behind ? c.lengths[before] : 0;
    for (int64_t i = 0; i < c.lengths[d]; ++i) {
      const int64_t first = c.window > 0 ? shared + i - c.window + 1 : 0;
      for (int64_t s = std::max<int64_t>(0, first); s <= shared + i; ++s)
        made[cu[d] + i][s < shared ? cu[before] + s : cu[d] + s - shared] = true;
    }
  }
  return made;
}

Attended reference(const test::AttentionInputs& in, const Case& c) {
  const auto exact = [](const at::Tensor& x) { return leaf(x.to(at::kDouble)); };
  const at::Tensor q = exact(in.q), k = exact(in.k), v = exact(in.v);
  const int64_t group = c.heads / c.kv_heads;
  const auto heads = [&](const at::Tensor& x) { return x.transpose(0, 1).repeat_interleave(group, 0); };
  at::Tensor scores = q.transpose(0, 1).matmul(heads(k).transpose(1, 2)) * c.options().scale;
  if (c.softcap > 0) scores = (scores / c.softcap).tanh() * c.softcap;
  const at::Tensor weights = scores.masked_fill(visible(c).logical_not(), -1e300).softmax(-1) * factors(c);
  const at::Tensor out = weights.matmul(heads(v)).transpose(0, 1);
  const auto grads = torch::autograd::grad({out}, {q, k, v}, {in.d_out.to(at::kDouble)});
  return {out.detach(), grads[0], grads[1], grads[2]};
}

void compare(at::ScalarType type) {
  int64_t seed = 0;
  for (const Case& c : kCases) {
    SCOPED_TRACE(testing::Message() << c.tokens() << " tokens, rate " << c.rate);
    const test::AttentionInputs in(c.tokens(), c.heads, c.kv_heads, c.head_dim, seed, type);
    const Attended want = reference(in, c);
    const auto attended = [&] { return attend(in.q, in.k, in.v, in.d_out, c.segments(), c.options()); };
    each_table([&] {
      const Attended got = attended();
      test::expect_near(got, want, tolerance(type));
      test::expect_same_bits(got, attended());
      const test::Threads one(1);
      test::expect_same_bits(got, attended());
    });
    const test::PathScope plain(Path::plain);
    test::expect_near(attended(), want, tolerance(type));
  }
}

TEST(AttentionDropout, Float32EqualsOperatorsWithTheSameMask) { compare(at::kFloat); }
TEST(AttentionDropout, Bfloat16EqualsOperatorsWithTheSameMask) { compare(at::kBFloat16); }

TEST(AttentionDropout, MeanOverKeysIsTheResultWithoutIt) {
  constexpr int kKeys = 3000;
  int64_t seed = 0;
  const Case c{{40, 9}, {}, 2, 1, 16, 0, 0, 0.2};
  const test::AttentionInputs in(c.tokens(), c.heads, c.kv_heads, c.head_dim, seed, at::kFloat);
  AttentionOptions options = c.options();
  at::Tensor sum = at::zeros(in.q.sizes(), at::kDouble), squares = at::zeros(in.q.sizes(), at::kDouble);
  for (uint64_t key = 0; key < kKeys; ++key) {
    options.dropout.key = base::counter_seed({3, key});
    const at::Tensor out = attention(in.q, in.k, in.v, c.segments(), options).to(at::kDouble);
    sum += out;
    squares += out * out;
  }
  options.dropout = {};
  const at::Tensor mean = sum / kKeys, want = attention(in.q, in.k, in.v, c.segments(), options);
  const at::Tensor deviation = ((squares / kKeys - mean * mean).clamp_min(0) / kKeys).sqrt();
  EXPECT_TRUE(((mean - want).abs() <= 5 * deviation + 1e-6).all().item<bool>());
  EXPECT_GT(deviation.mean().item<double>(), 0);
}

// The host outlives every tensor that it has counted.
int64_t peak(double rate) {
  static auto* const host = new test::CountingHost;
  tensor::set_host(host);
  const Case c{{1500}, {}, 2, 1, 32, 0, 0, rate};
  int64_t seed = 0;
  const test::AttentionInputs in(c.tokens(), c.heads, c.kv_heads, c.head_dim, seed, at::kFloat);
  host->counter.reset_peak();
  attend(in.q, in.k, in.v, in.d_out, c.segments(), c.options());
  tensor::set_host(nullptr);
  return host->counter.peak();
}
TEST(AttentionDropout, TakesNoMemory) {
  const int64_t without = peak(0);
  EXPECT_GT(without, 0);
  EXPECT_EQ(peak(0.1), without);
}

TEST(AttentionDropout, APluginRefusesIt) {
  const AttentionNeeds needs{at::kFloat, 6, 2, 20, 0, 0.1};
  double agreement = 0;
  const std::string path = TRL_TEST_PLUGINS "/attention.so";
  const auto [status, message] = test::error_of([&] { open_attention_plugin(path, needs, &agreement); });
  EXPECT_EQ(status, Status::unsupported);
  EXPECT_EQ(message, "attn_implementation: plug-in " + path +
                         " cannot drop weights, and config.json has a dropout of 0.1 in attention: set it to "
                         "0 there; give sdpa for the built-in attention");
}

}  // namespace
}  // namespace trl::kernels::attention_dropout_test
