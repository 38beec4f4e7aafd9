// How a GGUF file stores one weight, and its elements in the file's order.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "io/gguf.h"

namespace trl::model {

// A weight as stored in a file: a tensor, or an expert's part of one.
struct GgufHeld {
  io::GgufTensor tensor;
  std::vector<int64_t> shape;  // in the order of this library
  std::string name;            // the tensor's name in the file
  bool moved = false;          // rows are in another order
  bool transposed = false;
  float added = 0;

  // Elements in the file's order.
  void read(int64_t first, int64_t count, float* out) const {
    io::dequantize(tensor, first, count, out);
    if (added == 0) return;
    for (int64_t i = 0; i < count; ++i) out[i] -= added;
  }
  // Reads one element, which may be within a block.
  float read(int64_t at) const {
    float block[256];
    const int64_t size = io::find_ggml_type(tensor.type)->block;
    read(at / size * size, size, block);
    return block[at % size];
  }
};

}  // namespace trl::model
