// The instruction set that kernels are compiled for and chosen by. -DTRL_CPU=scalar computes one element at a
// time: no vectors, nothing to choose.
#pragma once

#if defined(__x86_64__) && !defined(TRL_CPU_SCALAR)
#define TRL_CPU_VARIANTS 1  // variants besides the generic one are built
#else
#define TRL_CPU_VARIANTS 0
#endif

// Always expands in its caller, and so is compiled for the caller's instruction set.
#define TRL_INLINE inline __attribute__((always_inline))

namespace trl::base {

// Each includes the ones before it. generic: any machine of the architecture.
enum class Isa { generic, avx2, avx512, avx512bf16, amx };

Isa isa();  // the best of the variants built that this machine can run

#ifdef TRL_CPU_SCALAR
inline constexpr const char* kCpu = "scalar";
#else
inline constexpr const char* kCpu = "auto";
#endif

}  // namespace trl::base
