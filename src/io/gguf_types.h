// ggml's tensor types: number, name, and the block layout of those that are read here.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace trl::io {

struct GgmlType {
  uint32_t number;
  std::string_view name;
  int64_t block;  // elements in a block; 0: known by name only
  int64_t bytes;  // of a block
};

enum : uint32_t { kGgmlF32 = 0, kGgmlF16 = 1, kGgmlQ4_1 = 3, kGgmlQ8_0 = 8, kGgmlBF16 = 30 };

const GgmlType* find_ggml_type(uint32_t number);  // null: unknown
std::string readable_ggml_types();                // "F32, F16, ..."

}  // namespace trl::io
