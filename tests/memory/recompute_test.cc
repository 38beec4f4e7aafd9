#include "memory/recompute.h"

#include <map>
#include <set>

#include "kernels/path.h"
#include "kernels/reference.h"
#include "tensor/counting_host.h"
#include "tensor/parameter/use.h"
#include "tensor/saved.h"

namespace trl::memory {
namespace {

using kernels::Parameter;
using test::leaf;
using test::parameter;
using test::random;
using test::same_bits;

struct Layer {
  Parameter norm = parameter(random({32}, 1)), gate = parameter(random({48, 32}, 2) * 0.2);
  Parameter up = parameter(random({48, 32}, 3) * 0.2), down = parameter(random({32, 48}, 4) * 0.2);
  int runs = 0;

  at::Tensor operator()(const at::Tensor& x) {
    ++runs;
    const at::Tensor n = kernels::norm(x, {.weight = &norm, .eps = 1e-5});
    const kernels::Projection both[] = {{&gate, nullptr}, {&up, nullptr}};
    const auto h = kernels::linear(n, both, at::kBFloat16);
    return kernels::add(x, kernels::linear(kernels::gated(kernels::Activation::silu, h[0], h[1]), down,
                                           nullptr, at::kBFloat16));
  }
};

using config::Recomputed;

// One tensor in, one out.
at::Tensor recomputed(const at::Tensor& x, bool enabled,
                      const std::function<at::Tensor(const at::Tensor&)>& body) {
  return recompute(x, enabled ? Recomputed::layers : Recomputed::nothing,
                   [body](const at::Tensor& in) { return std::vector{body(in)}; })[0];
}

TEST(Recompute, SameBitsAsKeepingTheGraphAndOneGradient) {
  const at::Tensor x = random({40, 32}, 5), dy = random({40, 32}, 6);
  std::vector<at::Tensor> kept, again;
  for (const bool enabled : {false, true}) {
    Layer layers[3];
    const at::Tensor in = leaf(x);
    at::Tensor y = in;
    for (Layer& layer : layers) y = recomputed(y, enabled, std::ref(layer));
    auto& out = enabled ? again : kept;
    out.push_back(y.detach());
    out.push_back(torch::autograd::grad({y}, {in}, {dy})[0]);
    for (Layer& layer : layers) {
      EXPECT_EQ(layer.runs, enabled ? 2 : 1);
      for (Parameter* p : {&layer.norm, &layer.gate, &layer.up, &layer.down}) {
        EXPECT_GT(p->gradient().abs().max().item<float>(), 0.0f);
        out.push_back(p->gradient());
      }
    }
  }
  ASSERT_EQ(kept.size(), 14u);
  for (size_t i = 0; i < kept.size(); ++i) EXPECT_TRUE(same_bits(kept[i], again[i])) << i;
}

// The second run takes the path of the first, whatever scope backward is called in.
TEST(Recompute, KeepsThePath) {
  for (const kernels::Path path : {kernels::Path::plain, kernels::Path::fused}) {
    std::vector<kernels::Path> seen;
    const at::Tensor x = leaf(random({4, 32}, 1));
    at::Tensor y;
    {
      const kernels::PathScope scope(path);
      y = recomputed(x, true, [&](const at::Tensor& in) {
        seen.push_back(kernels::path());
        return in * 2;
      });
    }
    const kernels::PathScope other(path == kernels::Path::plain ? kernels::Path::fused
                                                                : kernels::Path::plain);
    torch::autograd::grad({y}, {x}, {at::ones_like(y)});
    EXPECT_EQ(seen, (std::vector<kernels::Path>{path, path}));
  }
}

TEST(Recompute, NothingIsRecordedWithoutGradient) {
  Layer layer;
  EXPECT_FALSE(recomputed(random({4, 32}, 1), true, std::ref(layer)).requires_grad());
  const at::NoGradGuard guard;
  EXPECT_FALSE(recomputed(leaf(random({4, 32}, 1)), true, std::ref(layer)).requires_grad());
  EXPECT_EQ(layer.runs, 2);
}

// The piece trains something, and what it reads has no graph.
TEST(Recompute, AGraphBeginsInTheBody) {
  const at::Tensor x = random({4, 4}, 1), dy = random({4, 4}, 2);
  at::Tensor gradients[2];
  for (const bool enabled : {false, true}) {
    const at::Tensor w = leaf(random({4, 4}, 3));
    int runs = 0;
    const auto body = [&](const at::Tensor& in) {
      ++runs;
      return std::vector<at::Tensor>{in.matmul(w), in * 2};
    };
    const std::vector<at::Tensor> y =
        recompute(x, enabled ? Recomputed::layers : Recomputed::nothing, body, true);
    torch::autograd::backward({y[0]}, {dy});
    EXPECT_EQ(runs, enabled ? 2 : 1);
    gradients[enabled] = w.grad();
  }
  ASSERT_TRUE(gradients[1].defined());
  EXPECT_TRUE(at::equal(gradients[0], gradients[1]));
}

TEST(Recompute, AnErrorInTheSecondRunArrivesAsItself) {
  int runs = 0;
  const at::Tensor x = leaf(random({4, 4}, 1));
  const at::Tensor y = recomputed(x, true, [&](const at::Tensor& in) {
    if (++runs == 2) fail(Status::out_of_memory, "second run");
    return in * 2;
  });
  try {
    y.sum().backward();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::out_of_memory);
    EXPECT_EQ(error.message(), "second run");
  }
}

TEST(Recompute, Nests) {
  const at::Tensor x = leaf(random({4, 4}, 1));
  const auto square = [](const at::Tensor& in) { return in * in; };
  const at::Tensor y =
      recomputed(x, true, [&](const at::Tensor& in) { return recomputed(square(in), true, square); });
  const at::Tensor dx = torch::autograd::grad({y.sum()}, {x})[0];
  EXPECT_LT(test::error_of(dx, 4 * x.detach().pow(3)), 1e-6);
}

// A stack of layers on counted memory, forward and backward.
struct Stack {
  Layer layers[6];
  at::Tensor x = leaf(random({512, 32}, 7));
  void step(bool enabled) {
    at::Tensor y = x;
    for (Layer& layer : layers) y = recomputed(y, enabled, std::ref(layer));
    const at::Tensor dy = tensor::zeros(y.sizes(), y.scalar_type(), tensor::MemoryKind::activations);
    torch::autograd::grad({y}, {x}, {dy});
  }
};

TEST(Recompute, LowersThePeakAndLeavesNothingBehind) {
  test::CountingHost host;
  tensor::set_host(&host);
  int64_t peaks[2];
  for (const bool enabled : {false, true}) {
    Stack stack;
    host.counter.reset_peak();
    stack.step(enabled);
    // Not the workspace: how much oneDNN takes for a product depends on the processor.
    peaks[enabled ? 1 : 0] = host.counter.peak(base::MemoryKind::activations);
    EXPECT_EQ(host.counter.now(), 0);
  }
  // Kept for each layer: one stream (64 KiB), the norm's statistics (2), x in bfloat16 (32), gate, up and
  // their product (48 each). What else is alive at the peak is less than one layer's worth.
  constexpr int64_t kLayer = (64 + 2 + 32 + 3 * 48) * 1024;
  EXPECT_GT(peaks[0], 6 * kLayer);
  EXPECT_LT(peaks[0], 7 * kLayer);
  EXPECT_LT(peaks[1], peaks[0] / 2);
  tensor::set_host(nullptr);
}

TEST(Recompute, ALimitAnywhereInAStepIsAnErrorAndTheNextStepWorks) {
  test::CountingHost host;
  tensor::set_host(&host);
  for (const bool enabled : {false, true}) {
    Stack stack;
    host.counter.set_limit(0);
    host.counter.reset_peak();
    stack.step(enabled);
    const int64_t peak = host.counter.peak();
    for (int64_t part = 1; part < 20; ++part) {
      host.counter.set_limit(peak * part / 20);
      try {
        stack.step(enabled);
        ADD_FAILURE() << "a limit of " << part << "/20 of the peak was not seen";
      } catch (const Error& error) {
        EXPECT_EQ(error.status(), Status::out_of_memory);
      }
      EXPECT_EQ(host.counter.now(), 0) << part;
    }
    host.counter.set_limit(peak);
    EXPECT_NO_THROW(stack.step(enabled));
  }
  tensor::set_host(nullptr);
}

// A decoder layer of 32 values a token, 4 heads of 8 and 48 values in the middle.
struct WholeLayer {
  Parameter norm = parameter(random({32}, 1)), qkv = parameter(random({96, 32}, 2) * 0.2);
  Parameter out = parameter(random({32, 32}, 3) * 0.2), mlp_norm = parameter(random({32}, 4));
  Parameter gate_up = parameter(random({96, 32}, 5) * 0.2), down = parameter(random({32, 48}, 6) * 0.2);
  std::vector<size_t> reads = {};  // of each run: how many weights it read

  std::vector<Parameter*> parameters() { return {&norm, &qkv, &out, &mlp_norm, &gate_up, &down}; }
  at::Tensor heads(const at::Tensor& x) const { return x.view({x.size(0), 4, 8}); }
  std::vector<at::Tensor> operator()(const at::Tensor& x) {
    const tensor::Reads noted;
    const kernels::Projection in[] = {{&qkv}}, wide[] = {{&gate_up}};
    const kernels::Projection last[] = {{&down}};
    const auto parts = kernels::split_columns(
        kernels::linear(kernels::norm(x, {.weight = &norm}), in, at::kBFloat16)[0], {32, 32, 32});
    const auto segments = std::make_shared<kernels::Segments>(
        kernels::Segments{{0, static_cast<int32_t>(x.size(0))}, x.size(0)});
    const at::Tensor attended =
        kernels::attention(heads(parts[0]), heads(parts[1]), heads(parts[2]), segments, {.scale = 0.35});
    const auto [stream, h] = kernels::residual_norm(
        x, kernels::linear(attended.view({-1, 32}), out, nullptr, at::kBFloat16), {.weight = &mlp_norm});
    const at::Tensor act =
        kernels::gated(kernels::Activation::silu, kernels::linear(h, wide, at::kBFloat16)[0]);
    const auto wanted = computes_again() ? kernels::Wanted::graph : kernels::Wanted::added;
    const at::Tensor y = kernels::linear(act, last, at::kBFloat16, {}, wanted)[0];
    reads.push_back(noted.uses().size());
    return {kernels::add(stream, y)};
  }
};

// Bytes that are saved, of each op; a tensor that several save counts once.
class Count final : public tensor::SavedPolicy {
 public:
  std::map<std::string, int64_t, std::less<>> bytes;
  std::unique_ptr<tensor::Away> saved(const at::Tensor& x, std::string_view by) override {
    if (storages_.insert(x.storage().unsafeGetStorageImpl()).second) {
      held_.push_back(x.storage());
      bytes[std::string(by)] += static_cast<int64_t>(x.nbytes());
    }
    return nullptr;
  }

 private:
  std::set<const c10::StorageImpl*> storages_;
  std::vector<c10::Storage> held_;
};

constexpr Recomputed kForms[] = {Recomputed::nothing, Recomputed::products, Recomputed::selective,
                                 Recomputed::layers};

TEST(Recompute, EveryFormHasTheSameBitsAndComputesWhatItDoesNotKeep) {
  const at::Tensor x = random({40, 32}, 7), dy = random({40, 32}, 8);
  std::vector<at::Tensor> want;
  std::vector<std::vector<size_t>> reads;
  for (const Recomputed form : kForms) {
    WholeLayer layer;
    const at::Tensor in = leaf(x), y = recompute(in, form, std::ref(layer))[0];
    std::vector<at::Tensor> got{y.detach(), torch::autograd::grad({y}, {in}, {dy})[0]};
    for (Parameter* p : layer.parameters()) got.push_back(p->gradient());
    if (want.empty()) want = got;
    for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(same_bits(got[i], want[i])) << i;
    reads.push_back(layer.reads);
  }
  // The second time: two norms, and of the four products the last one never.
  EXPECT_EQ(reads, (std::vector<std::vector<size_t>>{{6}, {6, 2}, {6, 5}, {6, 5}}));
}

TEST(Recompute, WhatEachFormKeepsIsCounted) {
  using Bytes = std::map<std::string, int64_t, std::less<>>;
  const int64_t tokens = 40, stream = tokens * 32 * 4, rstd = tokens * 4;
  const int64_t wide = tokens * 96 * 2, narrow = tokens * 32 * 2, lse = tokens * 4 * 4;
  const std::vector<Bytes> want = {
      {{"attention", 3 * narrow + narrow + lse},
       {"norm", 2 * (stream + rstd)},
       {"linear", 2 * narrow + tokens * 48 * 2},
       {"gate", wide}},
      {{"layer input", stream}, {"linear", wide + narrow + wide}, {"attention", narrow + lse}},
      {{"layer input", stream}, {"attention", narrow + lse}},
      {{"layer input", stream}}};
  for (size_t i = 0; i < want.size(); ++i) {
    WholeLayer layer;
    Count count;
    const tensor::SavedScope scope(&count);
    const at::Tensor y = recompute(leaf(random({tokens, 32}, 7)), kForms[i], std::ref(layer))[0];
    EXPECT_EQ(count.bytes, want[i]) << i;
  }
}

TEST(Recompute, TheMoreIsComputedAgainTheLowerThePeak) {
  test::CountingHost host;
  tensor::set_host(&host);
  std::vector<int64_t> peaks;
  for (const Recomputed form : kForms) {
    WholeLayer layers[8];
    const at::Tensor x = leaf(random({512, 32}, 7));
    host.counter.reset_peak();
    {
      at::Tensor y = x;
      for (WholeLayer& layer : layers) y = recompute(y, form, std::ref(layer))[0];
      const at::Tensor dy = tensor::zeros(y.sizes(), y.scalar_type(), tensor::MemoryKind::activations);
      torch::autograd::grad({y}, {x}, {dy});
    }
    peaks.push_back(host.counter.peak(base::MemoryKind::activations));
    EXPECT_EQ(host.counter.now(), 0);
  }
  EXPECT_GT(peaks[0], peaks[1]);
  EXPECT_GT(peaks[1], peaks[2]);
  EXPECT_GT(peaks[2], peaks[3]);
  // Of each layer but the one that is being computed: the outputs of attention.
  EXPECT_EQ(peaks[2] - peaks[3], 7 * (512 * 32 * 2 + 512 * 4 * 4));
  tensor::set_host(nullptr);
}

TEST(Recompute, AGraphThatWasFreedIsAnError) {
  const at::Tensor x = leaf(random({4, 32}, 1));
  Parameter w = parameter(random({32}, 2));
  const at::Tensor y = kernels::norm(x, {.weight = &w}).sum();
  y.backward({}, /*retain_graph=*/true);
  try {
    y.backward();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::internal);
  }
}

}  // namespace
}  // namespace trl::memory
