// The families whose GGUF files are read and written: their names in llama.cpp, and the computations that it
// fixes for them, whatever config.json says.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/kinds.h"
#include "model/config/model_config.h"

namespace trl::model {

// The kinds of head that its models may have.
enum class GgufHead : uint8_t { either, tied, own };
// The biases that it adds if a model has them: only those of Q, K and V, or of every projection. all: it
// requires them.
enum class GgufBiases : uint8_t { of_inputs, any, all };

struct GgufFamily {
  std::string_view model_type;    // config.json's
  std::string_view architecture;  // general.architecture
  bool experts = false;           // this row is for files with experts
  bool paired_rows = false;       // the rows of a head of Q and K are in pairs (2i, 2i + 1), not in halves
  GgufHead head = GgufHead::either;
  kernels::Activation activation = kernels::Activation::silu;
  GgufBiases biases = GgufBiases::of_inputs;
  bool free_heads = false;   // the size of a head may differ from hidden size / heads
  bool multipliers = false;  // for the embedding, the branches, attention and logits
  bool normalised = false;   // the shares of a token's experts add up to 1
  bool rope_freqs = false;   // it reads Llama 3.1's scaling
  bool longrope = false;
  bool softcaps = false;  // for attention and logits, always both
  // Its default windows if the file gives none: in all but every n-th layer, of this size; 0: in no layer.
  int64_t window_pattern = 0, window = 0;
  // Models with this many layers scale attention by hidden size / heads, all others by the head size.
  int64_t wide_layers = 0;
  int64_t unturned_every = 0;  // every n-th layer has no rotary embedding; 0: all have one
};

const GgufFamily* find_gguf_family(std::string_view model_type);  // nullptr: not read or written
// The family for a general.architecture (or, as in some converters, a model type).
const GgufFamily* find_gguf_architecture(std::string_view architecture, bool experts);
std::string gguf_families();       // "llama, mistral, qwen2 ..."
std::string gguf_architectures();  // "llama, qwen2 ..."

// Checks whether llama.cpp computes the same as a configuration says. Throws Error(unsupported) with the
// different computation of llama.cpp.
void check_gguf(const ModelConfig& config, const GgufFamily& row);

// The scale of q k^T if no file gives it.
double gguf_attention_scale(const GgufFamily& row, int64_t layers, int64_t hidden, int64_t heads,
                            int64_t head_dim);

// The ratio of the configuration's factor of q k^T to llama.cpp's; 1 if they are equal.
double gguf_attention_ratio(const ModelConfig& config, const GgufFamily& row);

}  // namespace trl::model
