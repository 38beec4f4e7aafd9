// The kernels for AVX-512 without bfloat16 dot products.
#include <cstddef>
#include <cstdint>

#include "base/arithmetic/bfloat16.h"
#include "base/arithmetic/isa.h"
#if TRL_CPU_VARIANTS
#include <immintrin.h>

#include "kernels/cpu/cpu_kernels.h"

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")
#define TRL_LANES 16
#define TRL_TABLE kernels_avx512
#define TRL_TABLE_NAME "avx512"
#include "kernels/cpu/table_cpu.inc"
#endif
