// usage: experts_bench [--tokens N ...] [--experts N] [--k N] [--hidden N] [--width N] [--precision P]
//                      [--threads N] [--seconds S]
// A mixture of experts, forward and backward, beside a dense gated unit of the same arithmetic (k times as
// wide), both with float32 weights under autocast, in bf16 or in fp32. The routing is another one at each
// step, as in training. A JSON line for each number of tokens: median seconds and GFLOP/s of both, by 18 x
// tokens x hidden x k width.
#include <torch/csrc/autograd/autograd.h>

#include <CLI/CLI.hpp>

#include "kernels/experts/experts.h"
#include "support/repeat.h"
#include "support/runs.h"
#include "tensor/threads/parallel.h"

namespace {

using namespace trl::bench;
using trl::kernels::Activation;
using trl::kernels::Parameter;

struct Settings {
  std::vector<int64_t> tokens = {512, 2048, 8192};
  int64_t experts = 60, k = 4, hidden = 1024, width = 704;
  std::string precision = "autocast";
  int threads = 2;
  double seconds = 2;
};

Parameter weight(at::IntArrayRef sizes, at::ScalarType type) {
  Parameter made("weight", (at::randn(sizes) * 0.02).to(type));
  made.keep_copies(true);
  made.begin_training(at::zeros(sizes, at::TensorOptions().dtype(type)));
  return made;
}

class Sides {
 public:
  Sides(const Settings& s, int64_t tokens)
      : s_(s),
        stored_(s.precision == "bf16" ? at::kBFloat16 : at::kFloat),
        compute_(s.precision == "fp32" ? at::kFloat : at::kBFloat16),
        x_(at::randn({tokens, s.hidden}).to(stored_).requires_grad_()),
        dy_(at::randn({tokens, s.hidden}).to(compute_)),
        gate_up_(weight({s.experts, 2 * s.width, s.hidden}, stored_)),
        down_(weight({s.experts, s.hidden, s.width}, stored_)),
        dense_gate_(weight({s.k * s.width, s.hidden}, stored_)),
        dense_up_(weight({s.k * s.width, s.hidden}, stored_)),
        dense_down_(weight({s.hidden, s.k * s.width}, stored_)) {}

  void mixture() {
    const at::Tensor logits = at::randn({x_.size(0), s_.experts}).to(compute_).requires_grad_();
    const auto routing = trl::kernels::route(logits, s_.k, true);
    const at::Tensor y = trl::kernels::experts(x_, routing, {&gate_up_, &down_}, Activation::silu, compute_);
    torch::autograd::grad({y}, {x_, logits}, {dy_});
  }
  void dense() {
    const trl::kernels::Projection both[] = {{&dense_gate_, nullptr}, {&dense_up_, nullptr}};
    const std::vector<at::Tensor> wide = trl::kernels::linear(x_, both, compute_);
    const at::Tensor act = trl::kernels::gated(Activation::silu, wide[0], wide[1]);
    torch::autograd::grad({trl::kernels::linear(act, dense_down_, nullptr, compute_)}, {x_}, {dy_});
  }

 private:
  const Settings& s_;
  at::ScalarType stored_, compute_;
  at::Tensor x_, dy_;
  Parameter gate_up_, down_, dense_gate_, dense_up_, dense_down_;
};

void measure(const Settings& s, int64_t tokens) {
  Sides sides(s, tokens);
  const double work = 18e-9 * static_cast<double>(tokens * s.hidden * s.k * s.width);
  const double mixture = median(repeat(s.seconds, [&] { sides.mixture(); }));
  const double dense = median(repeat(s.seconds, [&] { sides.dense(); }));
  print({{"bench", "experts"},
         {"precision", s.precision},
         {"tokens", tokens},
         {"experts", s.experts},
         {"k", s.k},
         {"seconds", mixture},
         {"dense_seconds", dense},
         {"gflops", std::round(work / mixture)},
         {"dense_gflops", std::round(work / dense)}});
}

}  // namespace

int main(int argc, char** argv) try {
  Settings s;
  CLI::App app("A mixture of experts beside a dense gated unit of the same arithmetic");
  app.add_option("--tokens", s.tokens, "of a batch")->check(CLI::Range(1, 1 << 20));
  app.add_option("--experts", s.experts, "that there are")->check(CLI::Range(1, 4096));
  app.add_option("--k", s.k, "experts of a token")->check(CLI::Range(1, 4096));
  app.add_option("--hidden", s.hidden, "width of the stream")->check(CLI::Range(1, 1 << 16));
  app.add_option("--width", s.width, "of an expert")->check(CLI::Range(1, 1 << 16));
  app.add_option("--precision", s.precision, "of weights and products")
      ->check(CLI::IsMember({"autocast", "bf16", "fp32"}));
  app.add_option("--threads", s.threads, "to compute with")->check(CLI::Range(1, 4096));
  app.add_option("--seconds", s.seconds, "for each side")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  trl::tensor::set_threads(s.threads);
  for (const int64_t tokens : s.tokens) measure(s, tokens);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "experts_bench: %s\n", error.what());
  return 1;
}
