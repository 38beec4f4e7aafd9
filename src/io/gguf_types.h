// ggml's tensor types: number, name, and the block layout of the supported ones; numbers from and to them.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace trl::io {

struct GgmlType {
  uint32_t number;
  std::string_view name;
  int64_t block = 0;  // elements in a block; 0: known by name only
  int64_t bytes = 0;  // bytes of a block
  void (*dequantize)(const uint8_t* block, float* out) = nullptr;  // dequantises a block; null: plain numbers
};

// Types of metadata values, in the specification's order.
enum : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

enum : uint32_t {
  kGgmlF32 = 0,
  kGgmlF16 = 1,
  kGgmlQ4_0 = 2,
  kGgmlQ4_1 = 3,
  kGgmlQ5_0 = 6,
  kGgmlQ5_1 = 7,
  kGgmlQ8_0 = 8,
  kGgmlQ2_K = 10,
  kGgmlQ3_K = 11,
  kGgmlQ4_K = 12,
  kGgmlQ5_K = 13,
  kGgmlQ6_K = 14,
  kGgmlIQ4_NL = 20,
  kGgmlBF16 = 30
};

const GgmlType* find_ggml_type(uint32_t number);        // null: unknown
const GgmlType* find_ggml_type(std::string_view name);  // "Q8_0"; null: unknown
std::string readable_ggml_types();                      // "F32, F16, ..."

// Returns whether files can be written in the type: F32, F16, BF16, Q8_0, Q4_0.
bool is_writable(const GgmlType& type);
// Converts numbers into such a type; blocks are byte for byte those of ggml's reference quantiser
// (ggml-quants.c). count: a multiple of the type's block. Returns the number of elements before the first
// that the type cannot hold (not finite in a block; too large for float16); count: all were written.
int64_t quantize(const GgmlType& type, const float* values, int64_t count, uint8_t* out);

}  // namespace trl::io
