// Bytes of one body or answer that a connection holds, which count among those of all.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace trl::serve {

class HeldBytes {
 public:
  explicit HeldBytes(std::atomic<int64_t>& all) : all_(&all) {}
  HeldBytes(HeldBytes&& other) noexcept : all_(other.all_), own_(other.own_.exchange(0)) {}
  HeldBytes& operator=(HeldBytes&&) = delete;
  ~HeldBytes() { drop(own_); }

  size_t own() const { return own_; }
  void add(size_t bytes) noexcept {  // any thread
    own_ += bytes;
    *all_ += static_cast<int64_t>(bytes);
  }
  void drop(size_t bytes) noexcept {  // at most all; one thread
    const size_t dropped = std::min<size_t>(bytes, own_);
    own_ -= dropped;
    *all_ -= static_cast<int64_t>(dropped);
  }
  void set(size_t bytes) noexcept {
    drop(own_);
    add(bytes);
  }

 private:
  std::atomic<int64_t>* const all_;  // outlives this
  std::atomic<size_t> own_{0};
};

}  // namespace trl::serve
