// Checks that a plug-in computes the same as the built-in attention and writes only to its outputs, with
// small batches of typical cases that kernels get wrong: several documents, an empty one, one of a token,
// lengths that are not a multiple of a block, grouped heads, windows, documents that share a prefix, an
// unusual scale; in the run's type and head_dim.
#include <torch/csrc/autograd/autograd.h>
#include <cmath>
#include <numeric>

#include "base/arithmetic/counter_random.h"
#include "kernels/attention/attention_plugin.h"
#include "kernels/op.h"

namespace trl::kernels {

namespace {

// One small batch of the comparison.
struct AttentionCase {
  std::vector<int64_t> lengths;
  int64_t heads, kv_heads, window;
  std::vector<int32_t> prefix = {};  // Segments::prefix
};

// The allowed relative difference. float32: sums of a few hundred products in another order, and an
// exponential good to a few units in the last place. bfloat16: a rounding is up to 2^-9 of a value, and
// results pass three or four of them.
double tolerance(at::ScalarType type) { return type == at::kFloat ? 2e-5 : 2e-2; }

// Uniform in [-2, 2), so that scores spread like those of a trained model.
at::Tensor random(at::IntArrayRef sizes, uint64_t which) {
  at::Tensor x = tensor::empty(sizes, at::kFloat, MemoryKind::workspace);
  const base::CounterKey key = base::counter_key({0x617474, which});
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data_ptr<float>()[i] = 2 * base::counter_uniform(key, static_cast<uint32_t>(i));
  return x;
}

// Fills with a NaN (all bits set, in either type), to find elements that a kernel did not write.
at::Tensor no_numbers(at::IntArrayRef sizes, at::ScalarType type) {
  at::Tensor x = tensor::empty(sizes, type, MemoryKind::workspace);
  std::memset(x.data_ptr(), 0xff, x.nbytes());
  return x;
}

at::Tensor widened(const at::Tensor& x) { return converted(x, at::kFloat, MemoryKind::workspace); }

SegmentsPtr segments_of(const AttentionCase& c) {
  auto segments = std::make_shared<Segments>();
  segments->cu_seqlens.push_back(0);
  for (const int64_t length : c.lengths) {
    segments->cu_seqlens.push_back(segments->cu_seqlens.back() + static_cast<int32_t>(length));
    segments->max_length = std::max(segments->max_length, length);
  }
  segments->prefix = c.prefix;
  return segments;
}

// Marks the border of the window: one key among a thousand could be missing or extra unnoticed. So the last
// query that sees a certain key, and the first that does not, get a score with it that outweighs all others.
void mark_window(at::Tensor& q, at::Tensor& k, const AttentionCase& c, double scale) {
  const auto longest = std::ranges::max_element(c.lengths);
  if (c.window == 0 || *longest <= c.window || !c.prefix.empty()) return;
  const double score = std::log(static_cast<double>(c.window)) + 4;
  const auto value = static_cast<float>(std::sqrt(score / (scale * static_cast<double>(q.size(2)))));
  const auto fill = [&](const at::Tensor& x, int64_t token) {
    const int64_t width = x.size(1) * x.size(2);
    std::fill_n(x.data_ptr<float>() + token * width, width, value);
  };
  const int64_t key =
      std::accumulate(c.lengths.begin(), longest, int64_t{0}) + std::min<int64_t>(7, *longest - c.window - 1);
  fill(k, key);
  fill(q, key + c.window - 1);
  fill(q, key + c.window);
}

// An array that the plug-in may only read, and a copy of its bytes.
struct Input {
  Input(const char* what, const at::Tensor& x)
      : name(what), given(x), before(tensor::empty_like(x, MemoryKind::workspace)) {
    std::memcpy(before.data_ptr(), given.data_ptr(), given.nbytes());
  }
  const char* name;
  at::Tensor given, before;
};

// The largest difference of two arrays. A NaN or infinity differs more than any number.
struct Difference {
  int64_t at = 0;
  double distance = 0, largest = 0;  // largest: the largest absolute value expected
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
  Comparison(const AttentionPlugin& plugin, at::ScalarType type, int64_t head_dim, const AttentionCase& c)
      : plugin_(plugin), type_(type), head_dim_(head_dim), case_(c) {}

  // Returns the largest difference, relative to the largest value.
  double run() {
    const SegmentsPtr segments = segments_of(case_);
    const int64_t tokens = segments->cu_seqlens.back();
    const std::array<int64_t, 3> q_sizes = {tokens, case_.heads, head_dim_},
                                 kv_sizes = {tokens, case_.kv_heads, head_dim_};
    AttentionOptions options;
    options.scale = 0.7 / std::sqrt(static_cast<double>(head_dim_));
    options.window = case_.window;
    at::Tensor q = random(q_sizes, 1), k = random(kv_sizes, 2), v = random(kv_sizes, 3),
               d_out = random(q_sizes, 4);
    mark_window(q, k, case_, options.scale);
    for (at::Tensor* const x : {&q, &k, &v, &d_out}) *x = converted(*x, type_, MemoryKind::workspace);

    std::vector<Input> inputs = {{"q", q}, {"k", k}, {"v", v}};
    at::Tensor out = no_numbers(q_sizes, type_), lse = no_numbers({case_.heads, tokens}, at::kFloat);
    plugin_.forward(q, k, v, *segments, options, out, lse);
    check_unwritten(inputs, "forward");
    inputs.insert(inputs.end(), {{"d_out", d_out}, {"out", out}, {"lse", lse}});
    AttentionPlugin::Gradients grads{no_numbers(q_sizes, type_), no_numbers(kv_sizes, type_),
                                     no_numbers(kv_sizes, type_)};
    plugin_.backward(d_out, q, k, v, out, lse, *segments, options, grads);
    check_unwritten(inputs, "backward");

    // The built-in one in float32 is the reference: its rounding is negligible compared to the tolerance.
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

  void check_unwritten(const std::vector<Input>& inputs, const char* pass) const {
    for (const Input& input : inputs) {
      if (std::memcmp(input.before.data_ptr(), input.given.data_ptr(), input.given.nbytes()) == 0) continue;
      plugin_.refuse(
          fmt::format("({}) writes to {} in {}, which it may only read", plugin_.name(), input.name, pass));
    }
  }

  void compare(const char* name, const at::Tensor& got, const at::Tensor& want) {
    const at::Tensor wide = widened(got);
    const Difference worst = difference(wide, want);
    const double allowed = tolerance(type_) * worst.largest;
    if (worst.distance > allowed) refuse(name, wide, want, worst, allowed);
    if (worst.largest > 0) agreement_ = std::max(agreement_, worst.distance / worst.largest);
  }

  [[noreturn]] void refuse(const char* name, const at::Tensor& got, const at::Tensor& want,
                           const Difference& worst, double allowed) const {
    const int64_t d = want.size(2), heads = want.size(1), i = worst.at;
    const float value = got.data_ptr<float>()[i];
    plugin_.refuse(
        fmt::format("({}) gives wrong numbers: {} of token {}, head {}, element {} is {:.6g}, that of the "
                    "built-in attention is {:.6g}; {:.3g} is allowed between them ({}, documents of {} "
                    "tokens, {}heads {}, kv_heads {}, head_dim {}, window {})",
                    plugin_.name(), name, i / (heads * d), i / d % heads, i % d,
                    std::isnan(value) ? NAN : value, want.data_ptr<float>()[i], allowed,
                    type_ == at::kFloat ? "float32" : "bfloat16", fmt::join(case_.lengths, ", "),
                    case_.prefix.empty() ? "" : fmt::format("prefix {}, ", fmt::join(case_.prefix, ", ")),
                    case_.heads, case_.kv_heads, d, case_.window));
  }

  const AttentionPlugin& plugin_;
  const at::ScalarType type_;
  const int64_t head_dim_;
  const AttentionCase& case_;
  double agreement_ = 0;
};

// A document longer than the model's window. Time grows with the square of the window, so kWidest represents
// all wider windows, and only as many of the model's heads take part as leave the built-in attention well
// below a second.
AttentionCase beyond_window(const AttentionNeeds& needs) {
  constexpr int64_t kWidest = 2048, kProducts = int64_t{1} << 30;  // elements of q times elements of k
  const int64_t window = std::min(needs.window, kWidest), length = window + 37;
  const int64_t group = needs.heads / needs.kv_heads;
  const int64_t heads = std::max<int64_t>(1, kProducts / (length * length / 2 * needs.head_dim));
  const int64_t kv_heads = std::clamp<int64_t>(heads / group, 1, needs.kv_heads);
  return {{5, length}, kv_heads * std::min(group, heads), kv_heads, window};
}

std::vector<AttentionCase> cases_of(const AttentionPlugin& plugin, const AttentionNeeds& needs) {
  std::vector<AttentionCase> cases = {
      {{33, 1, 20}, needs.heads, needs.kv_heads, 0}, {{1, 37, 0, 130, 2}, 4, 2, 0}, {{300}, 3, 1, 0}};
  const bool windows = (plugin.table().flags & TRL_KERNEL_WINDOW) != 0;
  if (windows) {
    cases.push_back({{5, 150, 64}, 4, 2, 7});
    cases.push_back({{140, 3}, 2, 2, 65});
  }
  if (needs.window > 0) {
    cases.push_back({{33, 1, 20}, needs.heads, needs.kv_heads, needs.window});
    cases.push_back(beyond_window(needs));
  }
  if ((plugin.table().flags & TRL_KERNEL_PREFIX) != 0) {
    cases.push_back({{70, 33, 5}, 4, 2, 0, {-1, 0, 0}});
    if (windows) cases.push_back({{70, 33, 5}, 4, 2, 19, {-1, 0, 0}});
  }
  return cases;
}

}  // namespace

AttentionPluginPtr open_attention_plugin(const std::string& path, const AttentionNeeds& needs,
                                         double* agreement) {
  auto plugin = std::make_shared<const AttentionPlugin>(path);
  plugin->require(needs);
  *agreement = 0;
  for (const AttentionCase& c : cases_of(*plugin, needs))
    *agreement = std::max(*agreement, Comparison(*plugin, needs.type, needs.head_dim, c).run());
  return plugin;
}

}  // namespace trl::kernels
