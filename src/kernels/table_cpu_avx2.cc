// The kernels for AVX2 with FMA.
#include <cstddef>
#include <cstdint>
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/cpu_kernels.h"

#pragma GCC target("avx2,fma")
#define TRL_LANES 8
#define TRL_TABLE kernels_avx2
#define TRL_TABLE_NAME "avx2"
#include "kernels/table_cpu.inc"
#endif
