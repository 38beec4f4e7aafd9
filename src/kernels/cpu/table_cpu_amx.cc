// The kernels for AVX-512 with bfloat16 dot products and tile registers.
#include <cstddef>
#include <cstdint>

#include "base/arithmetic/bfloat16.h"
#include "base/arithmetic/isa.h"
#if TRL_CPU_VARIANTS
#include <immintrin.h>

#include "kernels/cpu/cpu_kernels.h"

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16,avx2,fma")
#define TRL_LANES 16
#define TRL_DOT_BF16
#define TRL_TILES
#define TRL_TABLE kernels_amx
#define TRL_TABLE_NAME "amx"
#include "kernels/cpu/table_cpu.inc"
#endif
