// Tokens and their ids, both ways. Ids may have gaps.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trl::text {

// The largest id is above every known vocabulary (the largest have 2^18) and keeps a malicious file from
// asking for gigabytes.
inline constexpr int32_t kMaxTokenId = (1 << 22) - 1;

class Vocabulary {
 public:
  void reserve(size_t tokens);
  // false: the token or the id exists already. 0 <= id <= kMaxTokenId.
  bool add(std::string_view token, int32_t id);
  // Puts a token at a free id; a token that exists already is found under this id from now on.
  void put(std::string_view token, int32_t id);
  int32_t find(std::string_view token) const;               // -1: none
  std::optional<std::string_view> token(int32_t id) const;  // valid as long as nothing is added
  size_t size() const { return count_; }
  int32_t end() const { return static_cast<int32_t>(entries_.size()); }  // all ids are below

 private:
  struct Entry {
    uint32_t offset = 0;
    uint32_t length = kHole;
  };
  struct Slot {
    uint32_t tag = 0;
    int32_t id = -1;
  };
  static constexpr uint32_t kHole = UINT32_MAX;

  std::string_view text(const Entry& entry) const { return {bytes_.data() + entry.offset, entry.length}; }
  size_t slot(std::string_view token, uint64_t hash) const;
  void insert(std::string_view token, uint64_t hash, size_t at, int32_t id);
  void grow();

  std::string bytes_;
  std::vector<Entry> entries_;  // by id
  std::vector<Slot> slots_;     // open addressing, a power of two
  size_t count_ = 0;
};

// A hash table from two 32-bit numbers to two more: merges by pair of ids, edges of a trie by node and byte.
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
    for (const Slot& slot : old)
      if (slot.key != kFree) slots_[find_slot(slot.key)] = slot;
  }

  std::vector<Slot> slots_;
  size_t count_ = 0;
};

}  // namespace trl::text
