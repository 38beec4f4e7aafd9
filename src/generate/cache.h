// The keys and values that all generators of a model share, if they compute in the same type.
#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <memory>

#include "generate/block_pool.h"
#include "model/model.h"

namespace trl::generate {

class Cache {
 public:
  // compute: bfloat16 over float32 weights is autocast. bytes: at most; at least one block is there.
  Cache(const model::Model& model, at::ScalarType compute, int64_t bytes);

  // Makes the contents useless if the weights have changed since the last call.
  void follow_weights();
  // A number below 2^32 for the keys that an adapter computes with these weights; null: the model alone.
  uint64_t number_of(const model::Adapter* adapter);
  // The sequences that generators have with an adapter: it cannot be removed meanwhile.
  void add_users(const model::Adapter* adapter, int64_t count) { users_[adapter] += count; }
  int64_t users(const model::Adapter* adapter) const {
    const auto found = users_.find(adapter);
    return found == users_.end() ? 0 : found->second;
  }
  // Gives memory back to the system: of all blocks above those in use.
  void release();
  void raise_limit(int64_t bytes) { pool->raise_limit(bytes / memory.block_bytes()); }

  const at::ScalarType compute;
  model::KvMemory memory;
  const std::shared_ptr<BlockPool> pool;

 private:
  const model::Model& model_;
  uint64_t version_;                                   // of the weights
  std::map<const model::Adapter*, uint64_t> numbers_;  // of the adapters
  std::map<const model::Adapter*, int64_t> users_;
};

}  // namespace trl::generate
