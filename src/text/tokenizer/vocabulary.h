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

}  // namespace trl::text
