#include "text/tokenizer/trie.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace trl::text {

namespace {
using Entry = std::pair<std::string_view, int32_t>;

std::vector<Entry> sorted(const Vocabulary& vocabulary) {
  std::vector<Entry> entries;
  entries.reserve(vocabulary.size());
  for (int32_t id = 0; id < vocabulary.end(); ++id) {
    const auto token = vocabulary.token(id);
    if (token && vocabulary.find(*token) == id) entries.emplace_back(*token, id);
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

// The tokens that go through a node: they agree in their first `depth` bytes.
struct Branch {
  uint32_t begin;
  uint32_t end;
  uint32_t depth;
};
}  // namespace

// Breadth first: a node's place is that of its branch in the queue.
Trie::Trie(const Vocabulary& vocabulary) {
  const std::vector<Entry> entries = sorted(vocabulary);
  std::vector<Branch> branches = {{0, static_cast<uint32_t>(entries.size()), 0}};
  labels_ = {0};
  for (size_t node = 0; node < branches.size(); ++node) {
    auto [begin, end, depth] = branches[node];
    first_.push_back(static_cast<uint32_t>(branches.size()));
    const bool whole = begin < end && entries[begin].first.size() == depth;
    ids_.push_back(whole ? entries[begin++].second : -1);
    while (begin < end) {
      const char byte = entries[begin].first[depth];
      uint32_t behind = begin + 1;
      while (behind < end && entries[behind].first[depth] == byte) ++behind;
      if (node == kRoot) roots_[static_cast<unsigned char>(byte)] = static_cast<uint32_t>(branches.size());
      branches.push_back({begin, behind, depth + 1});
      labels_.push_back(static_cast<unsigned char>(byte));
      begin = behind;
    }
  }
  first_.push_back(static_cast<uint32_t>(branches.size()));
}

}  // namespace trl::text
