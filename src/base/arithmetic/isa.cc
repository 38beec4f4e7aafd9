#include "base/arithmetic/isa.h"

#if TRL_CPU_VARIANTS
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace trl::base {

#if TRL_CPU_VARIANTS
namespace {

// Checks leaf 7 for tile registers for bfloat16. Linux gives them to a process that asks, unless a thread has
// an alternative signal stack too small for them (Documentation/x86/xstate.rst).
bool may_use_tiles() {
  constexpr unsigned kTilesOfBfloat16 = 1u << 22, kTiles = 1u << 24;  // bits of EDX
  constexpr long kAsk = 0x1023, kTileData = 18;                       // ARCH_REQ_XCOMP_PERM, XTILEDATA
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if ((d & kTilesOfBfloat16) == 0 || (d & kTiles) == 0) return false;
  return ::syscall(SYS_arch_prctl, kAsk, kTileData) == 0;
}

}  // namespace
#endif

Isa isa() {
#if TRL_CPU_VARIANTS
  static const Isa best = [] {
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    const bool dots = avx512 && __builtin_cpu_supports("avx512bf16");
    if (dots && may_use_tiles()) return Isa::amx;
    if (dots) return Isa::avx512bf16;
    return avx512 ? Isa::avx512 : avx2 ? Isa::avx2 : Isa::generic;
  }();
  return best;
#else
  return Isa::generic;
#endif
}

}  // namespace trl::base
