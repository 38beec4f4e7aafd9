// Weights in codes: 4-bit blocks, rows of 8-bit codes, and the blocks of a GGUF file.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "io/four_bit.h"
#include "io/gguf.h"
#include "kernels/cpu/cpu_kernels.h"
#include "tensor/parameter/encoded.h"

namespace trl::kernels {

// The arrays of a weight in 4-bit blocks, in the layout of bitsandbytes. Blocks run over the flattened
// tensor.
struct FourBitValues {
  io::FourBit type = io::FourBit::nf4;
  int64_t block = 64;      // a power of two
  at::Tensor codes = {};   // uint8 [(count + 1) / 2]
  at::Tensor absmax = {};  // float32 [blocks]; or nested, uint8 [blocks]: codes of absmax - offset
  // Only for nested absmax; else undefined, 0 and 0.
  at::Tensor nested_absmax = {};  // float32 [blocks / nested_block, rounded up]
  at::Tensor nested_code = {};    // float32 [256]
  int64_t nested_block = 0;       // a power of two
  float offset = 0;
};

// Nests the absmax of a tensor's blocks, as bitsandbytes does. absmax: float32 [blocks]
void nest(FourBitValues& values, const at::Tensor& absmax);

std::shared_ptr<const tensor::Encoded> four_bit_weight(std::vector<int64_t> shape, FourBitValues values);

// The location of a part of a 4-bit weight; nothing for a weight of another kind.
std::optional<FourBitRows> four_bit_rows(const tensor::Encoded& w, const tensor::Part2d& part);
// The same for a weight in rows of 8-bit codes.
std::optional<Int8Rows> int8_rows(const tensor::Encoded& w, const tensor::Part2d& part);

// The same for a weight in the blocks of a GGUF file, whose rows have the file's order.
std::optional<GgmlRows> ggml_rows(const tensor::Encoded& w, const tensor::Part2d& part);

// A weight in rows of 8-bit codes, as in LLM.int8(). codes: int8, of the shape; absmax: float32, one for each
// row
std::shared_ptr<const tensor::Encoded> int8_weight(std::vector<int64_t> shape, at::Tensor codes,
                                                   at::Tensor absmax);

// A weight in a GGUF file, read in place, of any type that io/ reads. file: keeps the tensor's bytes. row:
// maps a row to the file's row; empty: the same row.
std::shared_ptr<const tensor::Encoded> ggml_weight(std::shared_ptr<const io::Gguf> file,
                                                   const io::GgufTensor& tensor,
                                                   std::function<int64_t(int64_t)> row = {});

}  // namespace trl::kernels
