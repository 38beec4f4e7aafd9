// The keys and values that all generators of a model share, if they compute in the same type.
#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "generate/block_pool.h"
#include "kernels/path.h"
#include "model/model.h"

namespace trl::generate {

// The properties of keys and values besides those of the model.
struct CacheKind {
  at::ScalarType compute = at::kFloat;           // bfloat16 over float32 weights is autocast
  bool int8 = false;                             // keys and values are kept as integers
  std::optional<model::NarrowType> narrow = {};  // computes with copies of the weights in this type
  bool narrow_head = true;                       // and with one of the head
  kernels::Path path = kernels::Path::fused;     // on which all is computed; blocks are laid out by it
  bool operator==(const CacheKind&) const = default;
};

// The stages of a rehearsal that show the memory of generation: all of it, and within it the copies of
// weights, the blocks of keys and values, and logits.
inline constexpr const char *kGenerationStage = "generation", *kCopiesStage = "copies for generation",
                            *kKeysStage = "keys and values", *kLogitsStage = "logits";

// Returns the bytes that a block of keys and values takes.
int64_t block_bytes(const model::Model& model, const CacheKind& kind);

class Cache {
 public:
  // bytes: at most. Throws Error(invalid_config) if a block takes more; so does raise_limit().
  Cache(const model::Model& model, const CacheKind& kind, int64_t bytes);

  // If weights have changed since the last call, makes all keys of no use that were computed with them, and
  // the copies of these weights anew. Makes copies that went back.
  void follow_weights();
  void follow_adapters();  // the same, only for keys of adapters
  // A number below 2^32 for the keys that are computed with an adapter; null: the model alone.
  uint64_t number_of(const model::Adapter* adapter);
  // The sequences that generators have with an adapter: it cannot be removed, and no other one merged
  // meanwhile.
  int64_t& count_of_users(const model::Adapter* adapter) { return users_[adapter]; }  // to be changed
  int64_t users(const model::Adapter* adapter) const {
    const auto found = users_.find(adapter);
    return found == users_.end() ? 0 : found->second;
  }
  int64_t users_besides(const model::Adapter* adapter) const;
  // Gives memory back to the system: the slabs that have no block with users or a known content.
  void shrink();
  void release();                             // forgets contents first
  void release_copies() { narrow_.reset(); }  // of weights, until follow_weights()
  void raise_limit(int64_t bytes);
  // Call when a slab could not be allocated: the pool then gives only blocks that already have memory.
  void restrict_to_memory();

  const model::NarrowWeights* narrow() const { return narrow_ ? &*narrow_ : nullptr; }
  // The seconds that renewing the copies has taken so far.
  double copying_seconds() const { return copying_seconds_; }

  // Held by a generator while it uses any of this, as others may be destroyed meanwhile on other threads, but
  // not while it calls a sink.
  std::mutex in_use;
  const CacheKind kind;
  model::KvMemory memory;
  const std::shared_ptr<BlockPool> pool;

 private:
  void make_copies();
  void renew_copies();

  const model::Model& model_;
  std::optional<model::NarrowWeights> narrow_;
  double copying_seconds_ = 0;
  uint64_t version_;                       // of the model's own weights
  std::map<uint64_t, uint64_t> adapters_;  // the versions of those with keys, by their numbers
  std::map<const model::Adapter*, int64_t> users_;
};

}  // namespace trl::generate
