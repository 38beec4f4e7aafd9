// The 8-bit weights of LLM.int8() (Dettmers et al. 2022, arXiv 2208.07339): a row has its largest magnitude
// (absmax), and a value is its code times absmax / 127. Bit for bit as bitsandbytes 0.50.2 does it, from
// values that are rounded to float16 first.
#pragma once
#include <cstdint>

namespace trl::io {

// The factor for a code times its row's absmax.
inline constexpr float kInt8Step = 1.0f / 127.0f;

// Encodes one row. Returns the number of values before the first that is not finite in float16; count: all
// were encoded.
int64_t encode_int8_row(const float* values, int64_t count, int8_t* codes, float& absmax);

}  // namespace trl::io
