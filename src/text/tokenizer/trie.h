// The tokens of a vocabulary by their bytes. The children of a node are contiguous, so that a vocabulary of
// 250,000 tokens takes some ten megabytes and is built once, in linear time.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "text/tokenizer/vocabulary.h"

namespace trl::text {

class Trie {
 public:
  static constexpr uint32_t kRoot = 0;

  explicit Trie(const Vocabulary& vocabulary);

  // Returns the node after a byte; kRoot, which follows no byte, if no token continues with it.
  uint32_t next(uint32_t node, char byte) const {
    const auto label = static_cast<unsigned char>(byte);
    if (node == kRoot) return roots_[label];
    const uint32_t begin = first_[node];
    const void* found = std::memchr(labels_.data() + begin, label, first_[node + 1] - begin);
    return found ? static_cast<uint32_t>(static_cast<const unsigned char*>(found) - labels_.data()) : kRoot;
  }
  int32_t id(uint32_t node) const { return ids_[node]; }  // token that ends here; -1: none

 private:
  std::array<uint32_t, 256> roots_{};  // the root's children
  std::vector<unsigned char> labels_;  // by node: the byte that leads to it
  std::vector<uint32_t> first_;        // by node: its first child; one more at the end
  std::vector<int32_t> ids_;           // by node
};

}  // namespace trl::text
