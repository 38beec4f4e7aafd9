// Keys and values of sequences while they are decoded.
#pragma once
#include <ATen/ATen.h>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "kernels/kernels.h"

namespace trl::model {

// Memory for keys and values in blocks, each of kernels::kCacheRows positions of one sequence in all layers.
// It knows no sequences: whoever calls it says which blocks these have. Slabs of blocks are allocated when
// one of their blocks is first used, and counted.
class KvMemory {
 public:
  KvMemory(int64_t layers, const kernels::CacheShape& shape, at::Device device);

  // The memory of a block, bytes [layers, kernels::cache_bytes()]. Error(out_of_memory) leaves all as it was.
  const at::Tensor& block(int32_t id);
  bool has(int32_t id) const;  // whether block() needs no allocation
  // Frees the slabs of which no block is in use; the others stay where they are. Returns the freed bytes.
  int64_t release(const std::function<bool(int32_t)>& in_use);
  int64_t block_bytes() const { return layers_ * layer_bytes_; }
  int64_t bytes() const;               // of all slabs
  bool int8() const { return int8_; }  // as kernels::CacheShape has it

 private:
  int64_t layers_, layer_bytes_, in_slab_;
  bool int8_;
  at::Device device_;
  std::vector<at::Tensor> slabs_;   // undefined: not allocated
  std::vector<at::Tensor> blocks_;  // by id; undefined: not used yet
};

class Adapter;

// Tokens that continue sequences: for each run the next rows of one sequence.
struct SequenceRows {
  struct Run {
    Run() = default;
    Run(int64_t count, int64_t first) : rows(count), position(first) {}
    int64_t rows = 0, position = 0;  // position: of the first row
    // The number of positions that the sequence reaches, on which some rotary embeddings depend; 0: up to the
    // last of these rows.
    int64_t reach = 0;
    std::vector<at::Tensor> blocks = {};  // the sequence's, from its first position on
    // As in ForwardOptions; the same for every row of a sequence. Adapters that differ must each be one that
    // Model::only_adds_terms().
    std::optional<const Adapter*> adapter = {};
  };
  std::vector<int32_t> ids;  // of all rows, run by run
  std::vector<Run> runs;
  std::vector<int64_t> wanted;  // rows whose hidden states are returned
  bool int8 = false;            // as the memory of the blocks has it
};

}  // namespace trl::model
