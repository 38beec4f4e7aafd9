// Which table this machine can run.
#include "kernels/cpu_kernels.h"

namespace trl::kernels {

#if defined(__x86_64__)
extern const CpuKernels kernels_avx512bf16, kernels_avx512, kernels_avx2;
#endif
extern const CpuKernels kernels_generic;

namespace {

struct Variants {
  const CpuKernels* tables[5] = {};
  Variants() {
    int count = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (avx512 && __builtin_cpu_supports("avx512bf16")) tables[count++] = &kernels_avx512bf16;
    if (avx512) tables[count++] = &kernels_avx512;
    if (avx2) tables[count++] = &kernels_avx2;
#endif
    tables[count] = &kernels_generic;
  }
};

}  // namespace

const CpuKernels* const* cpu_variants() {
  static const Variants variants;
  return variants.tables;
}

const CpuKernels& cpu() { return *cpu_variants()[0]; }

}  // namespace trl::kernels
