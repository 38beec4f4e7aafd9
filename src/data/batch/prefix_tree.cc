// See prefix_tree.h. A radix trie: a node is a run of tokens that the same documents share.
#include "data/batch/prefix_tree.h"

#include <algorithm>

namespace trl::data {

namespace {

struct Node {
  int32_t place, length;  // of its tokens, in one of the documents
  std::vector<size_t> children = {};
};

struct Tree {
  size_t root;
  int64_t tokens;
};

class Trie {
 public:
  Trie(const TokenRows& rows, const TreeLimits& limits) : rows_(rows), limits_(limits) {}

  void add(int32_t place, int32_t length) {
    for (Tree& tree : trees_) {
      const int64_t shared = follow(tree.root, place, length, false);
      if (!joins(tree, shared, length)) continue;
      follow(tree.root, place, length, true);
      tree.tokens += length - shared;
      return;
    }
    trees_.push_back({new_node(place, length), length});
    ends_.push_back(trees_.back().root);
  }

  PrefixTree laid_out() const {
    PrefixTree out;
    out.cu_seqlens.push_back(0);
    std::vector<int32_t> segments(nodes_.size());
    for (const Tree& tree : trees_) lay_out(tree.root, segments, out);
    for (const size_t end : ends_) out.ends.push_back(segments[end]);
    return out;
  }

 private:
  bool joins(const Tree& tree, int64_t shared, int64_t length) const {
    return shared >= std::max<int64_t>(limits_.least, 1) &&
           static_cast<double>(shared) >= limits_.share * static_cast<double>(length) &&
           tree.tokens + length - shared <= limits_.most;
  }

  size_t new_node(int32_t place, int32_t length) {
    nodes_.push_back({place, length});
    return nodes_.size() - 1;
  }

  bool same(int32_t a, int32_t b) const {
    return rows_.input_ids[a] == rows_.input_ids[b] && rows_.labels[a] == rows_.labels[b] &&
           rows_.position_ids[a] == rows_.position_ids[b];
  }

  // Counts the tokens of a node with which a document continues.
  int32_t common(const Node& node, int32_t place, int32_t length) const {
    const int32_t most = std::min(node.length, length);
    int32_t count = 0;
    while (count < most && same(node.place + count, place + count)) ++count;
    return count;
  }

  // Counts the tokens that a document shares with a tree. add: appends its other tokens to the tree.
  int64_t follow(size_t at, int32_t place, int32_t length, bool add) {
    int64_t shared = 0;
    for (;;) {
      const int32_t count = common(nodes_[at], place, length);
      shared += count;
      place += count;
      length -= count;
      if (count < nodes_[at].length || length == 0) {
        if (add) end_behind(at, count, place, length);
        return shared;
      }
      const std::vector<size_t>& children = nodes_[at].children;
      const auto next = std::find_if(children.begin(), children.end(),
                                     [&](size_t child) { return same(nodes_[child].place, place); });
      if (next == children.end()) {
        if (add) end_behind(at, count, place, length);
        return shared;
      }
      at = *next;
    }
  }

  // Records a document that ends `length` tokens after the first `count` tokens of a node.
  void end_behind(size_t at, int32_t count, int32_t place, int32_t length) {
    if (count < nodes_[at].length) split(at, count);
    if (length > 0) {
      const size_t own = new_node(place, length);
      nodes_[at].children.push_back(own);
      at = own;
    }
    ends_.push_back(at);
  }

  // Splits a node: it keeps its first tokens; a new node gets the other tokens, all nodes below, and the
  // documents that end there.
  void split(size_t at, int32_t count) {
    const size_t rest = new_node(nodes_[at].place + count, nodes_[at].length - count);
    nodes_[rest].children = std::move(nodes_[at].children);
    nodes_[at].children = {rest};
    nodes_[at].length = count;
    std::replace(ends_.begin(), ends_.end(), at, rest);
  }

  void lay_out(size_t root, std::vector<int32_t>& segments, PrefixTree& out) const {
    struct Place {
      size_t node;
      int32_t parent;
    };
    std::vector<Place> next{{root, -1}};
    while (!next.empty()) {
      const auto [at, parent] = next.back();
      next.pop_back();
      const Node& node = nodes_[at];
      const auto segment = static_cast<int32_t>(out.parents.size());
      segments[at] = segment;
      out.parents.push_back(parent);
      for (int32_t i = 0; i < node.length; ++i) out.tokens.push_back(node.place + i);
      out.cu_seqlens.push_back(static_cast<int32_t>(out.tokens.size()));
      for (auto child = node.children.rbegin(); child != node.children.rend(); ++child)
        next.push_back({*child, segment});
    }
  }

  const TokenRows& rows_;
  const TreeLimits limits_;
  std::vector<Node> nodes_;
  std::vector<Tree> trees_;
  std::vector<size_t> ends_;  // the last node of each document
};

}  // namespace

PrefixTree prefix_tree(const TokenRows& rows, const TreeLimits& limits) {
  Trie trie(rows, limits);
  for (size_t d = 0; d + 1 < rows.cu_seqlens.size(); ++d)
    trie.add(rows.cu_seqlens[d], rows.cu_seqlens[d + 1] - rows.cu_seqlens[d]);
  return trie.laid_out();
}

}  // namespace trl::data
