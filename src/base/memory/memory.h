// The one counter of large buffers and its limit. libtrl.so owns the only instance of a process and hands it
// to the engine; both sides charge before they allocate. any thread.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace trl::base {

enum class MemoryKind : int32_t { weights, gradients, optimizer, activations, workspace, data };
inline constexpr int kMemoryKinds = 6;
std::string_view memory_kind_name(MemoryKind kind);
// Returns the name of a measured kind: workspace includes freed blocks that are kept for the next tensor,
// which no plan contains.
std::string_view measured_kind_name(MemoryKind kind);

class MemoryCounter {
 public:
  // false: the limit, or the caller's narrower one (0: none), would be passed, and nothing was charged
  bool try_charge(MemoryKind kind, int64_t bytes, int64_t narrower = 0) noexcept;
  // throws Error(out_of_memory) naming kind, bytes asked, bytes in use and limit
  void charge(MemoryKind kind, int64_t bytes);
  void release(MemoryKind kind, int64_t bytes) noexcept;

  void set_limit(int64_t bytes) noexcept { limit_.store(bytes); }  // 0: none
  int64_t limit() const noexcept { return limit_.load(); }
  int64_t now() const noexcept { return total_.load(); }
  int64_t peak() const noexcept { return peak_.load(); }
  int64_t now(MemoryKind kind) const noexcept { return kinds_[index(kind)].now.load(); }
  int64_t peak(MemoryKind kind) const noexcept { return kinds_[index(kind)].peak.load(); }
  void reset_peak() noexcept;

 private:
  struct Kind {
    std::atomic<int64_t> now{0};
    std::atomic<int64_t> peak{0};
  };
  static size_t index(MemoryKind kind) { return static_cast<size_t>(kind); }
  std::array<Kind, kMemoryKinds> kinds_;
  std::atomic<int64_t> total_{0};
  std::atomic<int64_t> peak_{0};
  std::atomic<int64_t> limit_{0};
};

}  // namespace trl::base
