// The differences between the blocks of model families, as data.
#pragma once
#include <cstdint>

namespace trl::kernels {

// act(x), with or without a gate: silu is x sigmoid(x); gelu x Phi(x), or with Phi approximated by tanh
// (transformers' gelu_new and gelu_pytorch_tanh); relu max(x, 0), or that squared (transformers' relu2).
enum class Activation : int32_t { silu, gelu, gelu_tanh, relu, relu_squared };

// Norms over the last dimension, statistics in float32.
//   rms         x rstd, rounded to x's type, times w (Llama)
//   rms_wide    x rstd w in float32, rounded once (OLMo 2)
//   rms_offset  x rstd (1 + w) in float32, rounded once (Gemma)
//   layer       (x - mean) rstd w + b in float32, rounded once (Ba et al. 2016)
enum class NormKind : int32_t { rms, rms_wide, rms_offset, layer };

// The elements of a head that are turned together, of the first 2n: i and n + i (transformers' rotate_half),
// or 2i and 2i + 1 (GPT-J, Cohere, GLM).
enum class RopeLayout : int32_t { halves, pairs };

// The types of copies of weights that generation computes with: numbers, or codes in blocks
// (cpu/cpu_kernels.h).
enum class NarrowType : int32_t { bfloat16, int8, int4 };

// Positions in a block of keys and values that are kept while sequences grow.
inline constexpr int64_t kCacheRows = 64;

}  // namespace trl::kernels
