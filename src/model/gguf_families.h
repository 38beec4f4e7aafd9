// The families that GGUF files are read and written of: what llama.cpp calls them, and what it computes for
// them whatever config.json says.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/kinds.h"

namespace trl::model {

// What its models may have for a head.
enum class GgufHead : uint8_t { either, tied, own };
// Which biases it adds where a model has them: of Q, K and V alone, or of every projection. all: it wants
// them.
enum class GgufBiases : uint8_t { of_inputs, any, all };

struct GgufFamily {
  std::string_view model_type;    // config.json's
  std::string_view architecture;  // general.architecture
  bool experts = false;           // the row of its files that have some
  bool paired_rows = false;       // the rows of a head of Q and K are in pairs (2i, 2i + 1), not in halves
  GgufHead head = GgufHead::either;
  kernels::Activation activation = kernels::Activation::silu;
  GgufBiases biases = GgufBiases::of_inputs;
  bool free_heads = false;   // heads may have another size than hidden size / heads
  bool multipliers = false;  // of the embedding, the branches, attention and logits
  bool normalised = false;   // the shares of a token's experts add up to 1
  bool rope_freqs = false;   // it reads Llama 3.1's scaling
  bool longrope = false;
  bool softcaps = false;  // of attention and logits, always both
  // It has windows: in all but every n-th layer, of this size, where the file says nothing; 0: of no layer.
  int64_t window_pattern = 0, window = 0;
  // Models with this many layers scale attention by hidden size / heads, all others by the size of a head.
  int64_t wide_layers = 0;
  int64_t unturned_every = 0;  // layers without rotary embedding; 0: none
};

const GgufFamily* find_gguf_family(std::string_view model_type);  // nullptr: not read or written
// With general.architecture (or, as in some converters, the model type).
const GgufFamily* find_gguf_architecture(std::string_view architecture, bool experts);
std::string gguf_families();       // "llama, mistral, qwen2 ..."
std::string gguf_architectures();  // "llama, qwen2 ..."

}  // namespace trl::model
