// bitsandbytes' 4-bit numbers: NormalFloat (Dettmers et al. 2023, arXiv 2305.14314) and a float of 1 + 2 + 1
// bits. A block of a flattened tensor has its largest magnitude (absmax); a value is a code of 16 times that.
// Two codes lie in a byte, the first in its high half. Bit for bit as bitsandbytes 0.50.2 does it on the CPU.
#pragma once
#include <array>
#include <cstdint>

namespace trl::io {

enum class FourBit : uint8_t { nf4, fp4 };

// What the codes 0 to 15 stand for.
const std::array<float, 16>& four_bit_code(FourBit type);

// Blocks of `block` values, an even number; the last may be shorter. codes: [(count + 1) / 2], absmax: one of
// each block. Returns how many values lie before the first that is not finite; count: all were encoded.
int64_t encode_four_bit(FourBit type, const float* values, int64_t count, int64_t block, uint8_t* codes,
                        float* absmax);

// The 256 values of the 8-bit dynamic type (Dettmers 2015, arXiv 1511.04561), ascending; and those of its
// form for numbers that are never negative, whose decades have twice as many steps.
const std::array<float, 256>& dynamic_code();
const std::array<float, 256>& unsigned_dynamic_code();

// The same with codes of 8 bits, those of dynamic_code(): for the absmax of nested blocks.
void encode_dynamic(const float* values, int64_t count, int64_t block, uint8_t* codes, float* absmax);

}  // namespace trl::io
