// Numbers as weight files store them, and their conversion to float32. Source bytes need no alignment.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace trl::io {

enum class ElementType : uint8_t { f32, f16, bf16, f64, i64, i32, u8, other };
size_t element_size(ElementType type);            // 0 for other
std::string_view element_name(ElementType type);  // as safetensors spells it, "F32"

// Converts IEEE half precision, exactly.
float half_to_float(uint16_t bits);
inline constexpr float kLargestHalf = 65504;
inline constexpr float kHalfOverflow = 65520;  // from this value on rounded to infinity
// Rounds to nearest, ties to even; NaN remains a (quiet) NaN.
uint16_t float_to_half(float value);

// Reads the elements [first, first + count) of data as float32. type: f32, f16, bf16 or f64.
void read_floats(ElementType type, const void* data, int64_t first, int64_t count, float* out);

}  // namespace trl::io
