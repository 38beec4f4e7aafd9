// Converts numbers into the block types that GGUF files are written in, byte for byte as ggml's reference
// quantiser (ggml-quants.c) does, and into float16 and bfloat16.
#pragma once
#include <cstdint>

#include "io/gguf_types.h"

namespace trl::io {

// Returns whether files can be written in the type: F32, F16, BF16, Q8_0, Q4_0.
bool is_writable(const GgmlType& type);
// count: a multiple of the type's block. Returns the number of elements before the first that the type cannot
// hold (not finite in a block; too large for float16); count: all were written.
int64_t quantize(const GgmlType& type, const float* values, int64_t count, uint8_t* out);

}  // namespace trl::io
