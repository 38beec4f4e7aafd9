// Tensors of random blocks, as in GGUF files.
#pragma once
#include <random>

#include "kernels/weight/encoded_weight.h"

namespace trl::test {

using Bytes = std::vector<uint8_t>;

struct Layout {
  const char* type;
  std::vector<size_t> halves;  // where scales and minima lie in a block
};
inline const Layout kLayouts[] = {{"Q4_0", {0}},    {"Q4_1", {0, 2}},   {"Q5_0", {0}},   {"Q5_1", {0, 2}},
                                  {"Q8_0", {0}},    {"Q2_K", {80, 82}}, {"Q3_K", {108}}, {"Q4_K", {0, 2}},
                                  {"Q5_K", {0, 2}}, {"Q6_K", {208}},    {"IQ4_NL", {0}}, {"F32", {}},
                                  {"F16", {}},      {"BF16", {}}};

// Random blocks, whose scales are subnormal, zero or up to 1/4, with either sign.
inline io::GgufTensor blocks(const Layout& layout, int64_t rows, int64_t width, Bytes& bytes) {
  const io::GgmlType& type = *io::find_ggml_type(layout.type);
  const auto size = static_cast<size_t>(type.bytes);
  bytes.resize(static_cast<size_t>(rows * width / type.block) * size);
  std::mt19937 draw(7);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(draw());
  for (size_t at = 0; at < bytes.size(); at += size) {
    for (const size_t half : layout.halves)
      bytes[at + half + 1] = static_cast<uint8_t>(draw() % 0x34 | draw() % 2 << 7);
    if (type.dequantize == nullptr)  // of the size of 1
      bytes[at + size - 1] = static_cast<uint8_t>(draw() % 2 << 7 | 0x38 | draw() % 8);
  }
  return {std::string(type.name), type.number, {rows, width}, bytes.data(), bytes.size()};
}

}  // namespace trl::test
