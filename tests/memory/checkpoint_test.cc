#include "memory/checkpoint.h"

#include "kernels/path.h"
#include "kernels/reference.h"
#include "tensor/counting_host.h"

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

TEST(Checkpoint, SameBitsAsKeepingTheGraphAndOneGradient) {
  const at::Tensor x = random({40, 32}, 5), dy = random({40, 32}, 6);
  std::vector<at::Tensor> kept, again;
  for (const bool enabled : {false, true}) {
    Layer layers[3];
    const at::Tensor in = leaf(x);
    at::Tensor y = in;
    for (Layer& layer : layers) y = checkpoint(y, enabled, std::ref(layer));
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
TEST(Checkpoint, KeepsThePath) {
  for (const kernels::Path path : {kernels::Path::plain, kernels::Path::fused}) {
    std::vector<kernels::Path> seen;
    const at::Tensor x = leaf(random({4, 32}, 1));
    at::Tensor y;
    {
      const kernels::PathScope scope(path);
      y = checkpoint(x, true, [&](const at::Tensor& in) {
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

TEST(Checkpoint, NothingIsRecordedWithoutGradient) {
  Layer layer;
  EXPECT_FALSE(checkpoint(random({4, 32}, 1), true, std::ref(layer)).requires_grad());
  const at::NoGradGuard guard;
  EXPECT_FALSE(checkpoint(leaf(random({4, 32}, 1)), true, std::ref(layer)).requires_grad());
  EXPECT_EQ(layer.runs, 2);
}

// The piece trains something, and what it reads has no graph.
TEST(Checkpoint, AGraphBeginsInTheBody) {
  const at::Tensor x = random({4, 4}, 1), dy = random({4, 4}, 2);
  at::Tensor gradients[2];
  for (const bool enabled : {false, true}) {
    const at::Tensor w = leaf(random({4, 4}, 3));
    int runs = 0;
    const auto body = [&](const at::Tensor& in) {
      ++runs;
      return std::vector<at::Tensor>{in.matmul(w), in * 2};
    };
    const std::vector<at::Tensor> y = checkpoint_all(x, enabled, body, true);
    torch::autograd::backward({y[0]}, {dy});
    EXPECT_EQ(runs, enabled ? 2 : 1);
    gradients[enabled] = w.grad();
  }
  ASSERT_TRUE(gradients[1].defined());
  EXPECT_TRUE(at::equal(gradients[0], gradients[1]));
}

TEST(Checkpoint, AnErrorInTheSecondRunArrivesAsItself) {
  int runs = 0;
  const at::Tensor x = leaf(random({4, 4}, 1));
  const at::Tensor y = checkpoint(x, true, [&](const at::Tensor& in) {
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

TEST(Checkpoint, Nests) {
  const at::Tensor x = leaf(random({4, 4}, 1));
  const auto square = [](const at::Tensor& in) { return in * in; };
  const at::Tensor y =
      checkpoint(x, true, [&](const at::Tensor& in) { return checkpoint(square(in), true, square); });
  const at::Tensor dx = torch::autograd::grad({y.sum()}, {x})[0];
  EXPECT_LT(test::error_of(dx, 4 * x.detach().pow(3)), 1e-6);
}

// A stack of layers on counted memory, forward and backward.
struct Stack {
  Layer layers[6];
  at::Tensor x = leaf(random({512, 32}, 7));
  void step(bool enabled) {
    at::Tensor y = x;
    for (Layer& layer : layers) y = checkpoint(y, enabled, std::ref(layer));
    const at::Tensor dy = tensor::zeros(y.sizes(), y.scalar_type(), tensor::MemoryKind::activations);
    torch::autograd::grad({y}, {x}, {dy});
  }
};

TEST(Checkpoint, LowersThePeakAndLeavesNothingBehind) {
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

TEST(Checkpoint, ALimitAnywhereInAStepIsAnErrorAndTheNextStepWorks) {
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

}  // namespace
}  // namespace trl::memory
