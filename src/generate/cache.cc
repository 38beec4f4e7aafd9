#include "generate/cache.h"

#include <algorithm>

namespace trl::generate {

Cache::Cache(const model::Model& model, at::ScalarType type, int64_t bytes)
    : compute(type),
      memory(model.kv_memory(type)),
      pool(std::make_shared<BlockPool>(std::max<int64_t>(1, bytes / memory.block_bytes()))),
      model_(model),
      version_(model.weights_version()) {}

void Cache::follow_weights() {
  const uint64_t version = model_.weights_version();
  if (version == version_) return;
  version_ = version;
  pool->recompute_all();
}

uint64_t Cache::number_of(const model::Adapter* adapter) {
  return numbers_.try_emplace(adapter, numbers_.size()).first->second;
}

void Cache::release() {
  pool->forget();
  memory.release(pool->end());
}

}  // namespace trl::generate
