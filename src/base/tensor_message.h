// The form in which tensors go to a server of this library: "TRLW", the version, the size of the header, the
// header as JSON, zeros up to kAlign, and then the numbers of each tensor, row by row and little-endian, with
// zeros up to kAlign. Numbers are in little-endian order.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace trl::base::tensor_message {

inline constexpr std::string_view kType = "application/x-trl-weights";  // of a body
inline constexpr char kMagic[4] = {'T', 'R', 'L', 'W'};
inline constexpr uint32_t kVersion = 1;
inline constexpr size_t kSizeAt = 8;  // of the header's size, 64 bits
inline constexpr size_t kHeaderAt = 16;
inline constexpr size_t kAlign = 64;
inline constexpr size_t kHeaderBytes = 64 << 20;  // at most

constexpr size_t aligned(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

// Returns the bytes of a number; 0: tensors of that type are not sent.
constexpr size_t number_size(std::string_view dtype) {
  if (dtype == "bfloat16" || dtype == "float16") return 2;
  return dtype == "float32" ? 4 : 0;
}

}  // namespace trl::base::tensor_message
