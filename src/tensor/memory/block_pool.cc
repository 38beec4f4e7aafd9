#include "tensor/memory/block_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "tensor/memory/charge.h"

namespace trl::tensor {

using base::MemoryKind;

// Counts if no host lent a counter.
class OwnHost final : public engine::Host {
 public:
  void log(int32_t, std::string_view, std::string_view) noexcept override {}
  bool try_charge(int32_t kind, int64_t bytes) noexcept override {
    return counter_.try_charge(static_cast<MemoryKind>(kind), bytes);
  }
  void release(int32_t kind, int64_t bytes) noexcept override {
    counter_.release(static_cast<MemoryKind>(kind), bytes);
  }
  int64_t memory_limit() noexcept override { return counter_.limit(); }
  int64_t memory_now() noexcept override { return counter_.now(); }
  int64_t memory_peak(int32_t kind) noexcept override { return counter_.peak(static_cast<MemoryKind>(kind)); }

 private:
  base::MemoryCounter counter_;
};

namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kMapped = int64_t{128}
                            << 10;  // bytes from which a block has its own pages, and is worth storing

int64_t capacity(int64_t bytes) {
  const int64_t unit = bytes < kMapped ? 64 : kPage;
  return std::max<int64_t>(unit, (bytes + unit - 1) / unit * unit);
}

// Requests huge pages for the whole ones inside a large block: one fault instead of 512.
void* map_pages(int64_t bytes) {
  const int64_t slack = bytes >= kHugePage ? kHugePage : 0;
  void* const raw = mmap(nullptr, static_cast<size_t>(bytes + slack), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  if (slack == 0) return raw;
  const auto start = reinterpret_cast<uintptr_t>(raw);
  const auto huge = static_cast<uintptr_t>(kHugePage);
  const uintptr_t aligned = (start + huge - 1) / huge * huge;
  const size_t before = aligned - start;
  const size_t after = static_cast<size_t>(slack) - before;
  auto* const data = reinterpret_cast<char*>(aligned);
  if (before > 0) munmap(raw, before);
  if (after > 0) munmap(data + bytes, after);
  madvise(data, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  return data;
}

// Small blocks are real, and zeroed like the others.
void* allocate_nothing(int64_t bytes) {
  if (bytes < kMapped) {
    void* const small = std::aligned_alloc(64, static_cast<size_t>(bytes));
    return small == nullptr ? nullptr : std::memset(small, 0, static_cast<size_t>(bytes));
  }
  void* const raw = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return raw == MAP_FAILED ? nullptr : raw;
}

void* allocate(int64_t bytes) {
  return bytes < kMapped ? std::aligned_alloc(64, static_cast<size_t>(bytes)) : map_pages(bytes);
}

void release_pages(const Block& block) {
  if (block.mapping == 0)
    std::free(block.data);
  else
    munmap(block.data, static_cast<size_t>(block.bytes));
}

bool worth_storing(const Block& block) {
  return block.bytes >= kMapped && block.kind != MemoryKind::weights && block.kind != MemoryKind::optimizer;
}

}  // namespace

BlockPool::BlockPool(Pages pages) : pages_(pages), own_(std::make_unique<OwnHost>()), host_(own_.get()) {}
BlockPool::~BlockPool() { trim(); }

void BlockPool::set_host(engine::Host* host) {
  std::lock_guard lock(mutex_);
  drop_oldest(0);
  host_ = host != nullptr ? host : own_.get();
}

void BlockPool::trim() noexcept {
  std::lock_guard lock(mutex_);
  drop_oldest(0);
  most_used_bytes_ = used_bytes_;
}

bool BlockPool::has_limit() noexcept {
  std::lock_guard lock(mutex_);
  return host_->memory_limit() > 0;
}

void BlockPool::drop_oldest(int64_t stored_limit) noexcept {
  size_t dropped = 0;
  for (; dropped < stored_.size() && stored_bytes_ > stored_limit; ++dropped) {
    const Block& block = stored_[dropped];
    stored_bytes_ -= block.bytes;
    host_->release(static_cast<int32_t>(MemoryKind::workspace), block.bytes);
    release_pages(block);
  }
  stored_.erase(stored_.begin(), stored_.begin() + static_cast<std::ptrdiff_t>(dropped));
}

// Takes from the smallest stored block that is large enough; among equals from the one freed last, which is
// warm in the cache.
bool BlockPool::take_stored(int64_t bytes, Block* block) {
  size_t best = stored_.size();
  for (size_t i = stored_.size(); i-- > 0;) {
    const int64_t size = stored_[i].bytes;
    if (size < bytes) continue;
    if (best == stored_.size() || size < stored_[best].bytes) best = i;
  }
  if (best == stored_.size()) return false;
  Block& found = stored_[best];
  *block = found;
  block->bytes = bytes;
  found.data = static_cast<char*>(found.data) + bytes;
  found.bytes -= bytes;
  if (found.bytes == 0) stored_.erase(stored_.begin() + static_cast<std::ptrdiff_t>(best));
  stored_bytes_ -= bytes;
  host_->release(static_cast<int32_t>(MemoryKind::workspace), bytes);
  return true;
}

// Stores a block, joined with its stored neighbours in the same mapping.
void BlockPool::store(Block block) noexcept {
  stored_bytes_ += block.bytes;
  std::erase_if(stored_, [&](const Block& other) {
    if (other.mapping != block.mapping) return false;
    const bool before = static_cast<char*>(other.data) + other.bytes == block.data;
    const bool after = static_cast<char*>(block.data) + block.bytes == other.data;
    if (before) block.data = other.data;
    if (before || after) block.bytes += other.bytes;
    return before || after;
  });
  stored_.push_back(block);
}

void BlockPool::charge(int64_t bytes, MemoryKind kind) {
  if (host_->try_charge(static_cast<int32_t>(kind), bytes)) return;
  drop_oldest(0);
  tensor::charge(*host_, bytes, kind);
}

// Reserves a place in the store for every block that is out, so that give() needs no memory.
void BlockPool::reserve_place() {
  const size_t places = stored_.size() + static_cast<size_t>(out_) + 1;
  if (places > stored_.capacity()) stored_.reserve(2 * places);
}

Block BlockPool::take(int64_t wanted, MemoryKind kind) {
  const int64_t bytes = capacity(wanted);
  std::lock_guard lock(mutex_);
  reserve_place();
  Block block{nullptr, bytes, kind};
  const bool stored = worth_storing(block) && take_stored(bytes, &block);
  block.kind = kind;
  block.zero = !stored && block.bytes >= kMapped;
  if (block.zero) block.mapping = ++mappings_;
  if (!stored) drop_oldest(std::max<int64_t>(0, most_used_bytes_ - used_bytes_ - bytes));
  try {
    charge(block.bytes, kind);
  } catch (...) {
    if (stored) release_pages(block);
    throw;
  }
  if (!stored) block.data = pages_ == Pages::real ? allocate(block.bytes) : allocate_nothing(block.bytes);
  if (block.data == nullptr) {
    host_->release(static_cast<int32_t>(kind), block.bytes);
    fail(Status::out_of_memory, "{} bytes of {}: the system is out of memory; {} bytes in use", block.bytes,
         base::memory_kind_name(kind), host_->memory_now());
  }
  ++out_;
  used_bytes_ += block.bytes;
  most_used_bytes_ = std::max(most_used_bytes_, used_bytes_);
  return block;
}

void BlockPool::give(const Block& block) noexcept {
  std::lock_guard lock(mutex_);
  host_->release(static_cast<int32_t>(block.kind), block.bytes);
  --out_;
  used_bytes_ -= block.bytes;
  const bool stored =
      worth_storing(block) && host_->try_charge(static_cast<int32_t>(MemoryKind::workspace), block.bytes);
  if (stored)
    store(block);
  else
    release_pages(block);
  if (used_bytes_ == 0) {
    drop_oldest(0);
    most_used_bytes_ = 0;
  }
}

}  // namespace trl::tensor
