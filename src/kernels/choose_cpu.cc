// Which table this machine can run.
#include "base/isa.h"
#include "kernels/cpu_kernels.h"

namespace trl::kernels {

#if TRL_CPU_VARIANTS
extern const CpuKernels kernels_avx512bf16, kernels_avx512, kernels_avx2;
#endif
extern const CpuKernels kernels_generic;

namespace {

struct Variants {
  const CpuKernels* tables[5] = {};
  Variants() {
    int count = 0;
#if TRL_CPU_VARIANTS
    const base::Isa best = base::isa();
    if (best >= base::Isa::avx512bf16) tables[count++] = &kernels_avx512bf16;
    if (best >= base::Isa::avx512) tables[count++] = &kernels_avx512;
    if (best >= base::Isa::avx2) tables[count++] = &kernels_avx2;
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
