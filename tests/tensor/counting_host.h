// A host with a memory counter, for tests that look at what is charged.
#pragma once
#include <atomic>

#include "base/memory/memory.h"
#include "engine/host.h"
#include "tensor/memory/counted.h"

namespace trl::test {

class CountingHost final : public engine::Host {
 public:
  void log(int32_t, std::string_view, std::string_view) noexcept override {}
  bool try_charge(int32_t kind, int64_t bytes) noexcept override {
    if (charges++ >= refuse_from || bytes >= refuse_bytes) return false;
    return counter.try_charge(static_cast<base::MemoryKind>(kind), bytes);
  }
  void release(int32_t kind, int64_t bytes) noexcept override {
    counter.release(static_cast<base::MemoryKind>(kind), bytes);
  }
  int64_t memory_limit() noexcept override { return counter.limit(); }
  int64_t memory_peak(int32_t kind) noexcept override {
    return counter.peak(static_cast<base::MemoryKind>(kind));
  }
  int64_t memory_now() noexcept override { return counter.now(); }
  base::MemoryCounter counter;
  std::atomic<int64_t> charges{0};
  std::atomic<int64_t> refuse_from{INT64_MAX};   // this charge and all after it find no room
  std::atomic<int64_t> refuse_bytes{INT64_MAX};  // nor does one of that many bytes
};

// That of the process, as in libtrl.so, from the first call on. It outlives every tensor that it has counted.
inline CountingHost& host() {
  static CountingHost* const host = [] {
    auto* made = new CountingHost;
    tensor::set_host(made);
    return made;
  }();
  return *host;
}

}  // namespace trl::test
