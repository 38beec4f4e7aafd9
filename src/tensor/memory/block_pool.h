// Memory blocks, charged to the host's counter, with a store of freed ones. Bytes in use and in store
// together never exceed the most bytes in use so far, so the store does not raise the peak. A stored block
// that is too large for a request is split, and its parts are joined again when they are free, so that
// requests of many sizes hold no more than they asked for.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/memory/memory.h"
#include "engine/host.h"

namespace trl::tensor {

struct Block {
  void* data = nullptr;
  int64_t bytes = 0;  // the charged size
  base::MemoryKind kind = base::MemoryKind::workspace;
  bool zero = false;     // fresh pages
  uint64_t mapping = 0;  // number of the mapping that it is a part of; 0: a small block from malloc
};

// Any thread may use it.
class BlockPool {
 public:
  enum class Pages : uint8_t { real, none };  // none: in a rehearsal, addresses that take no memory
  explicit BlockPool(Pages pages = Pages::real);
  ~BlockPool();
  void set_host(engine::Host* host);
  Block take(int64_t bytes, base::MemoryKind kind);  // throws Error(out_of_memory); 64-byte aligned
  void give(const Block& block) noexcept;
  // Frees the store; the amount that may be stored later is counted from the bytes in use now.
  void trim() noexcept;
  bool has_limit() noexcept;

 private:
  bool take_stored(int64_t bytes, Block* block);
  void store(Block block) noexcept;
  void reserve_place();
  void charge(int64_t bytes, base::MemoryKind kind);
  void drop_oldest(int64_t stored_limit) noexcept;
  const Pages pages_;
  std::mutex mutex_;
  std::unique_ptr<class OwnHost> own_;
  engine::Host* host_;
  std::vector<Block> stored_;  // oldest first
  int64_t out_ = 0;            // blocks taken and not given back
  uint64_t mappings_ = 0;      // number of mappings made so far
  int64_t stored_bytes_ = 0;
  int64_t used_bytes_ = 0;
  int64_t most_used_bytes_ = 0;
};

}  // namespace trl::tensor
