// Does a plug-in compute what the built-in attention computes? Small batches that reach what kernels get
// wrong: several documents, an empty one, one of a token, lengths that are no multiple of a block, grouped
// heads, a window, a scale that is not the usual one; in the run's type and head_dim.
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "base/counter.h"
#include "kernels/attention_plugin.h"
#include "kernels/op.h"

namespace trl::kernels {

namespace {

struct Case {
  std::vector<int64_t> lengths;
  int64_t heads, kv_heads, window;
};

std::vector<Case> cases_of(const AttentionPlugin& plugin, const AttentionNeeds& needs) {
  std::vector<Case> cases = {
      {{33, 1, 20}, needs.heads, needs.kv_heads, 0}, {{1, 37, 0, 130, 2}, 4, 2, 0}, {{300}, 3, 1, 0}};
  if ((plugin.table().flags & TRL_KERNEL_WINDOW) != 0) {
    cases.push_back({{5, 150, 64}, 4, 2, 7});
    cases.push_back({{140, 3}, 2, 2, 65});
  }
  return cases;
}

// float32: sums of a few hundred products in another order, and an exponential good to a few units in the
// last place. bfloat16: a rounding is up to 2^-9 of a value, and results pass three or four of them.
double tolerance(at::ScalarType type) { return type == at::kFloat ? 2e-5 : 2e-2; }

// Uniform in [-2, 2), so that scores spread as those of a trained model do.
at::Tensor random(at::IntArrayRef sizes, at::ScalarType type, uint64_t which) {
  at::Tensor x = tensor::empty(sizes, at::kFloat, MemoryKind::workspace);
  const base::CounterKey key = base::counter_key({0x617474, which});
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data_ptr<float>()[i] = 2 * base::counter_uniform(key, static_cast<uint32_t>(i));
  return converted(x, type, MemoryKind::workspace);
}

// What a kernel leaves as it was is found out: all bits set is a NaN in either type.
at::Tensor no_numbers(at::IntArrayRef sizes, at::ScalarType type) {
  at::Tensor x = tensor::empty(sizes, type, MemoryKind::workspace);
  std::memset(x.data_ptr(), 0xff, x.nbytes());
  return x;
}

at::Tensor widened(const at::Tensor& x) { return converted(x, at::kFloat, MemoryKind::workspace); }

SegmentsPtr segments_of(const std::vector<int64_t>& lengths) {
  auto segments = std::make_shared<Segments>();
  segments->cu_seqlens.push_back(0);
  for (const int64_t length : lengths) {
    segments->cu_seqlens.push_back(segments->cu_seqlens.back() + static_cast<int32_t>(length));
    segments->max_length = std::max(segments->max_length, length);
  }
  return segments;
}

// Where two arrays differ most. What is not a number differs more than all else.
struct Difference {
  int64_t at = 0;
  double distance = 0, largest = 0;  // largest: absolute value of what is wanted
};

Difference difference(const at::Tensor& got, const at::Tensor& want) {
  Difference worst;
  for (int64_t i = 0; i < want.numel(); ++i) {
    const double expected = want.data_ptr<float>()[i];
    double distance = std::abs(got.data_ptr<float>()[i] - expected);
    if (std::isnan(distance)) distance = std::numeric_limits<double>::infinity();
    worst.largest = std::max(worst.largest, std::abs(expected));
    if (distance > worst.distance) worst = {i, distance, worst.largest};
  }
  return worst;
}

class Comparison {
 public:
  Comparison(const AttentionPlugin& plugin, const AttentionNeeds& needs, const Case& c)
      : plugin_(plugin), needs_(needs), case_(c) {}

  // -> largest difference, of the largest value
  double run() {
    const SegmentsPtr segments = segments_of(case_.lengths);
    const int64_t tokens = segments->cu_seqlens.back(), d = needs_.head_dim;
    AttentionOptions options;
    options.scale = 0.7 / std::sqrt(static_cast<double>(d));
    options.window = case_.window;
    const at::Tensor q = random({tokens, case_.heads, d}, needs_.type, 1);
    const at::Tensor k = random({tokens, case_.kv_heads, d}, needs_.type, 2);
    const at::Tensor v = random({tokens, case_.kv_heads, d}, needs_.type, 3);
    const at::Tensor d_out = random({tokens, case_.heads, d}, needs_.type, 4);

    at::Tensor out = no_numbers(q.sizes(), needs_.type), lse = no_numbers({case_.heads, tokens}, at::kFloat);
    plugin_.forward(q, k, v, *segments, options, out, lse);
    AttentionPlugin::Gradients grads{no_numbers(q.sizes(), needs_.type), no_numbers(k.sizes(), needs_.type),
                                     no_numbers(v.sizes(), needs_.type)};
    plugin_.backward(d_out, q, k, v, out, lse, *segments, options, grads);

    // The built-in one in float32 is the measure: what it rounds is nothing against what is allowed.
    const at::AutoGradMode with_graph(true);
    tensor_list leaves = {leaf(q), leaf(k), leaf(v)};
    const at::Tensor want = attention(leaves[0], leaves[1], leaves[2], segments, options);
    const tensor_list want_grads = torch::autograd::grad({want}, leaves, {widened(d_out)});
    compare("out", out, want.detach());
    compare("dq", grads.dq, want_grads[0]);
    compare("dk", grads.dk, want_grads[1]);
    compare("dv", grads.dv, want_grads[2]);
    return agreement_;
  }

 private:
  static at::Tensor leaf(const at::Tensor& x) {
    at::Tensor copy = tensor::empty(x.sizes(), at::kFloat, MemoryKind::workspace);
    cpu().convert(x.data_ptr(), type_of(x), copy.data_ptr(), Type::f32, x.numel());
    return copy.set_requires_grad(true);
  }

  void compare(const char* name, const at::Tensor& got, const at::Tensor& want) {
    const at::Tensor wide = widened(got);
    const Difference worst = difference(wide, want);
    const double allowed = tolerance(needs_.type) * worst.largest;
    if (worst.distance > allowed) refuse(name, wide, want, worst, allowed);
    if (worst.largest > 0) agreement_ = std::max(agreement_, worst.distance / worst.largest);
  }

  [[noreturn]] void refuse(const char* name, const at::Tensor& got, const at::Tensor& want,
                           const Difference& worst, double allowed) const {
    const int64_t d = want.size(2), heads = want.size(1), i = worst.at;
    const float value = got.data_ptr<float>()[i];
    throw Error(
        Status::unsupported,
        fmt::format("attn_implementation: plug-in {} ({}) gives wrong numbers: {} of token {}, head {}, "
                    "element {} is {:.6g}, that of the built-in attention is {:.6g}; {:.3g} is allowed "
                    "between them ({}, documents of {} tokens, heads {}, kv_heads {}, head_dim {}, window "
                    "{}); give sdpa for the built-in attention",
                    plugin_.path(), plugin_.table().name, name, i / (heads * d), i / d % heads, i % d,
                    std::isnan(value) ? NAN : value, want.data_ptr<float>()[i], allowed,
                    needs_.type == at::kFloat ? "float32" : "bfloat16", fmt::join(case_.lengths, ", "),
                    case_.heads, case_.kv_heads, d, case_.window),
        "attn_implementation");
  }

  const AttentionPlugin& plugin_;
  const AttentionNeeds& needs_;
  const Case& case_;
  double agreement_ = 0;
};

}  // namespace

double compare_with_built_in(const AttentionPlugin& plugin, const AttentionNeeds& needs) {
  double agreement = 0;
  for (const Case& c : cases_of(plugin, needs))
    agreement = std::max(agreement, Comparison(plugin, needs, c).run());
  return agreement;
}

AttentionPluginPtr open_attention_plugin(const std::string& path, const AttentionNeeds& needs,
                                         double* agreement) {
  auto plugin = std::make_shared<const AttentionPlugin>(path);
  plugin->require(needs);
  *agreement = compare_with_built_in(*plugin, needs);
  return plugin;
}

}  // namespace trl::kernels
