// The kernels for any machine: 128-bit vectors, which every 64-bit instruction set has, or else scalars.
#include <cstddef>
#include <cstdint>

#include "base/arithmetic/bfloat16.h"
#include "kernels/cpu/cpu_kernels.h"

#ifdef TRL_CPU_SCALAR
#define TRL_LANES 1
#define TRL_TABLE_NAME "scalar"
#else
#define TRL_LANES 4
#define TRL_TABLE_NAME "generic"
#endif
#define TRL_TABLE kernels_generic
#include "kernels/cpu/table_cpu.inc"
