#include "generate/cache.h"

#include <chrono>

#include "base/error.h"
#include "kernels/kinds.h"
#include "tensor/memory/counted.h"
#include "tensor/memory/rehearsal.h"

namespace trl::generate {

namespace {

int64_t blocks_in(int64_t bytes, const model::KvMemory& memory) {
  const int64_t block = memory.block_bytes();
  if (bytes < block)
    fail_key("kv_cache_memory",
             "kv_cache_memory: {} bytes are allowed, and keys and values of one block of {} tokens take {}: "
             "allow more",
             bytes, kernels::kCacheRows, block);
  return bytes / block;
}

model::KvMemory memory_for(const model::Model& model, const CacheKind& kind) {
  const kernels::PathScope scope(kind.path);
  return model.kv_memory(kind.compute, kind.int8);
}

}  // namespace

int64_t block_bytes(const model::Model& model, const CacheKind& kind) {
  return memory_for(model, kind).block_bytes();
}

Cache::Cache(const model::Model& model, const CacheKind& of, int64_t bytes)
    : kind(of),
      memory(memory_for(model, of)),
      pool(std::make_shared<BlockPool>(blocks_in(bytes, memory))),
      model_(model),
      version_(model.weights_version()) {
  if (kind.narrow) make_copies();
}

void Cache::make_copies() {
  const tensor::Stage stage(kCopiesStage);
  narrow_ = model_.narrow_weights(*kind.narrow, kind.narrow_head);
  narrow_->refresh();
}

void Cache::renew_copies() {
  const auto begin = std::chrono::steady_clock::now();
  if (narrow_)
    narrow_->refresh();
  else
    make_copies();
  copying_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void Cache::follow_weights() {
  const uint64_t version = model_.weights_version();
  if (kind.narrow && (!narrow_ || version != version_)) renew_copies();
  if (version != version_) pool->recompute();
  version_ = version;
  follow_adapters();
}

void Cache::follow_adapters() {
  if (adapters_.empty()) return;
  std::map<uint64_t, uint64_t> now;
  for (const auto& adapter : model_.adapters().all())
    if (adapters_.contains(adapter->number())) now[adapter->number()] = adapter->version();
  for (const auto& [number, version] : adapters_)
    if (const auto found = now.find(number); found == now.end() || found->second != version)
      pool->recompute(number);
  adapters_ = std::move(now);
}

void Cache::raise_limit(int64_t bytes) { pool->raise_limit(blocks_in(bytes, memory)); }

void Cache::restrict_to_memory() {
  pool->restrict_to([this](int32_t block) { return memory.has(block); });
}

uint64_t Cache::number_of(const model::Adapter* adapter) {
  if (adapter == nullptr) return 0;
  adapters_.try_emplace(adapter->number(), adapter->version());
  return adapter->number();
}

int64_t Cache::users_besides(const model::Adapter* adapter) const {
  int64_t others = 0;
  for (const auto& [user, count] : users_)
    if (user != adapter) others += count;
  return others;
}

void Cache::shrink() {
  if (memory.release([this](int32_t block) { return pool->in_use(block); }) == 0) return;
  tensor::trim();
  pool->lift();
}

void Cache::release() {
  pool->forget();
  shrink();
  tensor::trim();
}

}  // namespace trl::generate
