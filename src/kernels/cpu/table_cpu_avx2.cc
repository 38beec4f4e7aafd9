// The kernels for AVX2 with FMA.
#include <cstddef>
#include <cstdint>

#include "base/arithmetic/bfloat16.h"
#include "base/arithmetic/isa.h"
#if TRL_CPU_VARIANTS
#include <immintrin.h>

#include "kernels/cpu/cpu_kernels.h"

#pragma GCC target("avx2,fma")
#define TRL_LANES 8
#define TRL_TABLE kernels_avx2
#define TRL_TABLE_NAME "avx2"
#include "kernels/cpu/table_cpu.inc"
#endif
