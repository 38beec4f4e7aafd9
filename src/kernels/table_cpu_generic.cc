// The kernels for any machine: 128-bit vectors, which every 64-bit instruction set has.
#include <cstddef>
#include <cstdint>

#include "kernels/cpu_kernels.h"

#define TRL_LANES 4
#define TRL_TABLE kernels_generic
#define TRL_TABLE_NAME "generic"
#include "kernels/table_cpu.inc"
