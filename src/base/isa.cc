#include "base/isa.h"

namespace trl::base {

Isa isa() {
#if TRL_CPU_VARIANTS
  static const Isa best = [] {
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (avx512 && __builtin_cpu_supports("avx512bf16")) return Isa::avx512bf16;
    return avx512 ? Isa::avx512 : avx2 ? Isa::avx2 : Isa::generic;
  }();
  return best;
#else
  return Isa::generic;
#endif
}

}  // namespace trl::base
