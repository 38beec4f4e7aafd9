// usage: gemm_bench [--threads N] [--seconds S]
// The machine's matrix products, bfloat16 and float32, in GFLOP/s: the engine's and oneDNN's own, of square
// shapes and those of models, the best of the repeats. The last line has the peak of each type over all of
// them, which sft_bench takes as the roof.
#include <omp.h>

#include <CLI/CLI.hpp>
#include <oneapi/dnnl/dnnl.hpp>

#include "kernels/gemm/gemm.h"
#include "support/machine.h"
#include "support/repeat.h"
#include "support/runs.h"
#include "tensor/threads/parallel.h"

namespace {

using namespace trl::bench;

struct Shape {
  const char* name;
  int64_t m, n, k;
  bool transposed = true;  // C = A B^T, as in a linear layer; else A B, as for the gradient of its input
};
constexpr Shape kShapes[] = {{"square", 1024, 1024, 1024},
                             {"square", 2048, 2048, 2048},
                             {"mlp up", 1024, 4864, 896},
                             {"mlp down", 1024, 896, 4864},
                             {"mlp down, gradient of its input", 1024, 4864, 896, false},
                             {"square", 4096, 4096, 4096},
                             {"head tile", 512, 16384, 896}};

double onednn_seconds(const at::Tensor& a, const at::Tensor& b, bool transposed, at::Tensor& c,
                      double seconds) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const auto type =
      a.scalar_type() == at::kFloat ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
  const int64_t m = a.size(0), k = a.size(1), n = c.size(1);
  const dnnl::memory::desc at_a({m, k}, type, dnnl::memory::dims{k, 1});
  const dnnl::memory::desc at_b({k, n}, type,
                                transposed ? dnnl::memory::dims{1, k} : dnnl::memory::dims{n, 1});
  const dnnl::memory::desc at_c({m, n}, type, dnnl::memory::dims{n, 1});
  const dnnl::matmul::desc operation(at_a, at_b, at_c);
  const dnnl::matmul product(dnnl::matmul::primitive_desc(operation, engine));
  const std::unordered_map<int, dnnl::memory> arguments{
      {DNNL_ARG_SRC, dnnl::memory(at_a, engine, a.data_ptr())},
      {DNNL_ARG_WEIGHTS, dnnl::memory(at_b, engine, b.data_ptr())},
      {DNNL_ARG_DST, dnnl::memory(at_c, engine, c.data_ptr())}};
  return best_seconds(seconds, [&] {
    product.execute(stream, arguments);
    stream.wait();
  });
}

double measure(const Shape& shape, at::ScalarType type, double seconds) {
  const auto [m, n, k, transposed] = std::tuple(shape.m, shape.n, shape.k, shape.transposed);
  const at::Tensor a = at::rand({m, k}).to(type);
  const at::Tensor b = (transposed ? at::rand({n, k}) : at::rand({k, n})).to(type);
  at::Tensor c = at::empty({m, n}, type);
  const double work = 2e-9 * static_cast<double>(m * n * k);
  const double ours = work / best_seconds(seconds, [&] { trl::kernels::gemm(a, false, b, transposed, c); });
  const double theirs = work / onednn_seconds(a, b, transposed, c, seconds);
  print({{"bench", "gemm"},
         {"type", type == at::kFloat ? "fp32" : "bf16"},
         {"shape", shape.name},
         {"m", m},
         {"n", n},
         {"k", k},
         {"gflops", std::round(ours)},
         {"onednn_gflops", std::round(theirs)}});
  return std::max(ours, theirs);
}

}  // namespace

int main(int argc, char** argv) try {
  int threads = 2;
  double seconds = 0.3;
  CLI::App app("Matrix products");
  app.add_option("--threads", threads, "to compute with")->check(CLI::Range(1, 4096));
  app.add_option("--seconds", seconds, "for each shape, type and side")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  trl::tensor::set_threads(threads);
  omp_set_num_threads(threads);
  double bf16 = 0, fp32 = 0;
  for (const Shape& shape : kShapes) {
    bf16 = std::max(bf16, measure(shape, at::kBFloat16, seconds));
    fp32 = std::max(fp32, measure(shape, at::kFloat, seconds));
  }
  print({{"bench", "gemm"},
         {"what", "peak"},
         {"threads", threads},
         {"onednn", trl::kernels::onednn_version()},
         {"bf16_gflops", std::round(bf16)},
         {"fp32_gflops", std::round(fp32)},
         {"gb_s", std::round(1e-9 * trl::bench::read_bandwidth(seconds))}});
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "gemm_bench: %s\n", error.what());
  return 1;
}
