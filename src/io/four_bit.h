// bitsandbytes' 4-bit numbers: NormalFloat (Dettmers et al. 2023, arXiv 2305.14314) and a float of 1 + 2 + 1
// bits. A block of a flattened tensor has its largest magnitude (absmax); a value is one of 16 codes times
// absmax. A byte holds two codes, the first in its high half. Bit for bit as bitsandbytes 0.50.2 does it on
// the CPU.
#pragma once
#include <array>
#include <cstdint>

namespace trl::io {

enum class FourBit : uint8_t { nf4, fp4 };

// Returns the values of the codes 0 to 15.
const std::array<float, 16>& four_bit_code(FourBit type);

// Encodes blocks of `block` values, an even number; the last may be shorter. codes: [(count + 1) / 2],
// absmax: one of each block. Returns the number of values before the first that is not finite; count: all
// were encoded.
int64_t encode_four_bit(FourBit type, const float* values, int64_t count, int64_t block, uint8_t* codes,
                        float* absmax);

// Returns the 256 values of the 8-bit dynamic type (Dettmers 2015, arXiv 1511.04561), ascending; the unsigned
// form is for numbers that are never negative, and its decades have twice as many steps.
const std::array<float, 256>& dynamic_code();
const std::array<float, 256>& unsigned_dynamic_code();

// Does the same with codes of 8 bits, those of dynamic_code(): for the absmax of nested blocks.
void encode_dynamic(const float* values, int64_t count, int64_t block, uint8_t* codes, float* absmax);

// The factor for a code of LLM.int8() (Dettmers et al. 2022, arXiv 2208.07339) times its row's absmax.
inline constexpr float kInt8Step = 1.0f / 127.0f;

// Encodes one row of LLM.int8(): a value is its code times absmax / 127. Bit for bit as bitsandbytes does it,
// from values that are rounded to float16 first. Returns the number of values before the first that is not
// finite in float16; count: all were encoded.
int64_t encode_int8_row(const float* values, int64_t count, int8_t* codes, float& absmax);

}  // namespace trl::io
