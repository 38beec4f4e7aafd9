// cache_frozen_layers: the hidden states of a document below the lowest trained layer are computed once and
// kept on disk. Their key holds everything that they depend on, so they serve every batch, epoch, run and
// split that has this document.
#pragma once
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "memory/paged_memory.h"
#include "train/method.h"
#include "train/run/setup.h"

namespace trl::train {

class FrozenLayers {
 public:
  // Keeps states while the trainer of this model lives. Reads all rows once to say how many bytes they take,
  // and throws Error(io) if the disk has less room, Error(invalid_config) if nothing can be kept. In a
  // rehearsal no states are on disk, as in a first run.
  explicit FrozenLayers(const Setup& setup);

  // Returns the states of all documents of the batch, for ForwardInput::states. Computes and writes missing
  // ones.
  at::Tensor states(const MicroBatch& batch);

 private:
  struct Need {
    uint64_t tokens = 0, missing = 0;  // of different documents; of the documents that are not on disk
    std::unordered_set<uint64_t> documents = {};
  };
  static void check(const Setup& setup);
  // Returns the rows of x that belong to a document.
  static at::Tensor rows(const at::Tensor& x, const kernels::Segments& segments, size_t document) {
    const int32_t begin = segments.cu_seqlens[document];
    return x.narrow(0, begin, segments.cu_seqlens[document + 1] - begin);
  }
  base::Json about(const Setup& setup) const;
  void check_disk(const Setup& setup) const;
  void count(engine::BatchSource& source, Need& need) const;
  std::string key(const MicroBatch& batch, size_t document) const;
  at::Tensor compute(const MicroBatch& batch, const std::vector<size_t>& documents) const;
  void check_bits(const MicroBatch& batch, const std::vector<size_t>& documents, const at::Tensor& states);

  model::Model& model_;
  const tensor::Fixing fixing_;
  const model::ForwardOptions options_;
  const int64_t layers_;
  int64_t longest_;  // a batch with positions beyond it is not kept
  std::string owner_;
  std::unique_ptr<memory::StateFiles> files_;
  bool checked_ = false;
};

}  // namespace trl::train
