// A hash table from two 32-bit numbers to two more: merges by pair of ids, edges of a trie by node and byte.
#pragma once
#include <cstdint>
#include <vector>

namespace trl::text {

class PairTable {
 public:
  struct Value {
    uint32_t first;
    int32_t second;
  };

  void reserve(size_t pairs) {
    while (slots_.size() < 2 * pairs) grow();
  }
  // Sets a pair's value; the last one given is kept.
  void set(uint32_t a, uint32_t b, Value value) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    Slot& slot = slots_[find_slot(key(a, b))];
    if (slot.key == kFree) ++count_;
    slot = {key(a, b), value};
  }
  const Value* find(uint32_t a, uint32_t b) const {
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[find_slot(key(a, b))];
    return slot.key == kFree ? nullptr : &slot.value;
  }

 private:
  struct Slot {
    uint64_t key = kFree;
    Value value{};
  };
  static constexpr uint64_t kFree = UINT64_MAX;

  static uint64_t key(uint32_t a, uint32_t b) { return static_cast<uint64_t>(a) << 32 | b; }
  size_t find_slot(uint64_t key) const {
    const size_t mask = slots_.size() - 1;
    uint64_t hash = key * 0x9E3779B97F4A7C15u;  // 2^64 / golden ratio
    hash ^= hash >> 32;
    size_t at = hash & mask;
    while (slots_[at].key != kFree && slots_[at].key != key) at = (at + 1) & mask;
    return at;
  }
  void grow() {
    std::vector<Slot> old(slots_.empty() ? 16 : 2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.key != kFree) slots_[find_slot(slot.key)] = slot;
    }
  }

  std::vector<Slot> slots_;
  size_t count_ = 0;
};

}  // namespace trl::text
