#include "base/memory/memory.h"

#include "base/error.h"

namespace trl::base {

std::string_view memory_kind_name(MemoryKind kind) {
  constexpr std::string_view kNames[] = {"weights",     "gradients", "optimizer",
                                         "activations", "workspace", "data"};
  return kNames[static_cast<size_t>(kind)];
}

std::string_view measured_kind_name(MemoryKind kind) {
  return kind == MemoryKind::workspace ? "workspace with free blocks" : memory_kind_name(kind);
}

namespace {
void raise_peak(std::atomic<int64_t>& peak, int64_t now) noexcept {
  int64_t seen = peak.load(std::memory_order_relaxed);
  while (now > seen && !peak.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
  }
}
}  // namespace

bool MemoryCounter::try_charge(MemoryKind kind, int64_t bytes, int64_t narrower) noexcept {
  int64_t limit = limit_.load(std::memory_order_relaxed);
  if (narrower > 0 && (limit <= 0 || narrower < limit)) limit = narrower;
  int64_t before = total_.load(std::memory_order_relaxed), total = 0;
  do {  // a refused request must never show in the total: it could make a smaller one fail
    if (__builtin_add_overflow(before, bytes, &total) || (limit > 0 && total > limit)) return false;
  } while (!total_.compare_exchange_weak(before, total, std::memory_order_relaxed));
  Kind& k = kinds_[index(kind)];
  raise_peak(k.peak, k.now.fetch_add(bytes, std::memory_order_relaxed) + bytes);
  raise_peak(peak_, total);
  return true;
}

void MemoryCounter::charge(MemoryKind kind, int64_t bytes) {
  if (!try_charge(kind, bytes)) {
    throw Error(
        Status::out_of_memory,
        fmt::format("runtime.host_memory_limit: {} bytes of {} do not fit: {} bytes in use, limit {} bytes",
                    bytes, memory_kind_name(kind), now(), limit()),
        "runtime.host_memory_limit");
  }
}

void MemoryCounter::release(MemoryKind kind, int64_t bytes) noexcept {
  kinds_[index(kind)].now.fetch_sub(bytes, std::memory_order_relaxed);
  total_.fetch_sub(bytes, std::memory_order_relaxed);
}

void MemoryCounter::reset_peak() noexcept {
  peak_.store(total_.load());
  for (Kind& k : kinds_) k.peak.store(k.now.load());
}

}  // namespace trl::base
