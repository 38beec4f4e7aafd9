// Chooses the table that this machine can run.
#include <atomic>

#include "base/arithmetic/isa.h"
#include "kernels/cpu/cpu_kernels.h"

namespace trl::kernels {

#if TRL_CPU_VARIANTS
extern const CpuKernels kernels_amx, kernels_avx512bf16, kernels_avx512, kernels_avx2;
#endif
extern const CpuKernels kernels_generic;

namespace {

struct Variants {
  const CpuKernels* tables[6] = {};
  Variants() {
    int count = 0;
#if TRL_CPU_VARIANTS
    const base::Isa best = base::isa();
    if (best >= base::Isa::amx) tables[count++] = &kernels_amx;
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

namespace {
std::atomic<const CpuKernels*>& chosen() {
  static std::atomic<const CpuKernels*> table{cpu_variants()[0]};
  return table;
}
}  // namespace

const CpuKernels& cpu() { return *chosen().load(std::memory_order_relaxed); }
void use_cpu(const CpuKernels& table) { chosen() = &table; }

}  // namespace trl::kernels
