#include "support/machine.h"

#include <atomic>

#include "kernels/gemm/gemm.h"
#include "kernels/gemm/gemm_int8.h"
#include "kernels/weight/weight_product.h"
#include "support/repeat.h"
#include "tensor/threads/parallel.h"

namespace trl::bench {

namespace {

using namespace trl::kernels;

constexpr int64_t kSide = 2048;  // of the large product

double product_peak(const Projection& p, at::ScalarType type, double seconds) {
  const at::Tensor x = at::randn({kSide, kSide}).to(type);
  const auto side = static_cast<double>(kSide);
  return 2 * side * side * side / best_seconds(seconds, [&] { project(x, p); });
}

}  // namespace

double read_bandwidth(double seconds) {
  const at::Tensor memory = at::ones({int64_t{64} << 20}, at::kLong);
  std::atomic<int64_t> kept{0};  // so that the reads are not left out
  const double time = best_seconds(seconds, [&] {
    tensor::parallel_for(memory.numel() / 8, 1 << 16, [&](int64_t begin, int64_t end) {
      const auto* at = memory.data_ptr<int64_t>() + 8 * begin;
      int64_t sums[8] = {};
      for (int64_t line = begin; line < end; ++line, at += 8) {
        __builtin_prefetch(at + 512);
        for (int i = 0; i < 8; ++i) sums[i] += at[i];
      }
      kept += sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7];
    });
  });
  return static_cast<double>(memory.nbytes()) / time;
}

Machine measure_machine(double seconds) {
  Machine machine;
  machine.bandwidth = read_bandwidth(seconds);
  tensor::Parameter wide("w", at::randn({kSide, kSide})),
      narrow("w", at::randn({kSide, kSide}).to(at::kBFloat16));
  machine.f32 = product_peak({&wide}, at::kFloat, seconds);
  Projection p{&narrow};
  machine.bf16 = product_peak(p, at::kBFloat16, seconds);
  if (!has_int8_products()) return machine;
  const Int8Products codes(p);
  p.int8 = &codes;
  machine.int8 = product_peak(p, at::kBFloat16, seconds);
  return machine;
}

Json line_of(const Machine& machine) {
  return {{"bench", "machine"},
          {"gb_s", 1e-9 * machine.bandwidth},
          {"f32_gflops", 1e-9 * machine.f32},
          {"bf16_gflops", 1e-9 * machine.bf16},
          {"int8_gops", 1e-9 * machine.int8}};
}

}  // namespace trl::bench
