// The activations that backward recomputes instead of keeping, and those that are offloaded until backward.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"

namespace trl::config {

// The recomputed part of a decoder layer. layers: all of it. selective: all but the outputs of attention.
// products: all but these and the products, which leaves norms, rotary embeddings and gates.
enum class Recomputed : uint8_t { nothing, layers, selective, products };

struct Recompute {
  Recomputed form = Recomputed::nothing;
  int64_t every_n_layers = 1;  // layers 0, n, 2n, ...; the others keep their activations
  bool offload = false;        // the inputs of these layers are offloaded from memory

  Recomputed of_layer(int64_t index) const {
    return index % every_n_layers == 0 ? form : Recomputed::nothing;
  }
};

// Reads gradient_checkpointing with its kwargs, under their newer names too, and `recompute`. Throws
// Error(invalid_config).
Recompute recompute(const Config& config);
// Returns the keys that were given and change nothing here, for the log.
std::vector<std::string> recompute_notes(const Config& config);

// Activations that are offloaded from memory.
struct ActivationOffload {
  bool all = false;          // activation_offloading; else only those of Recompute::offload
  int64_t min_bytes = 1024;  // a smaller tensor stays in memory
  bool zstd = false;
  std::string directory = {};  // offload_dir, or output_dir
};
std::optional<ActivationOffload> activation_offload(const Config& config);  // none: nothing is offloaded

}  // namespace trl::config
