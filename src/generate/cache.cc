#include "generate/cache.h"

#include <algorithm>

#include "tensor/memory/counted.h"
#include "tensor/memory/rehearsal.h"

namespace trl::generate {

Cache::Cache(const model::Model& model, const CacheKind& of, int64_t bytes)
    : kind(of),
      memory(model.kv_memory(of.compute, of.int8)),
      pool(std::make_shared<BlockPool>(std::max<int64_t>(1, bytes / memory.block_bytes()))),
      model_(model),
      version_(model.weights_version()) {
  if (!kind.narrow) return;
  const tensor::Stage stage(kCopiesStage);
  narrow_ = model.narrow_weights(*kind.narrow, kind.narrow_head);
  narrow_->refresh();
}

void Cache::follow_weights() {
  const uint64_t version = model_.weights_version();
  if (version == version_) return;
  if (narrow_) narrow_->refresh();
  version_ = version;
  pool->recompute_all();
}

uint64_t Cache::number_of(const model::Adapter* adapter) {
  return numbers_.try_emplace(adapter, numbers_.size()).first->second;
}

void Cache::shrink() {
  if (memory.release([this](int32_t block) { return pool->in_use(block); }) > 0) tensor::trim();
}

void Cache::release() {
  pool->forget();
  shrink();
  tensor::trim();
}

}  // namespace trl::generate
