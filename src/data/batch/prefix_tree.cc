// See prefix_tree.h. A radix trie: a node is a run of tokens that the same documents share.
#include "data/batch/prefix_tree.h"

#include <algorithm>
#include <numeric>

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
  Trie(const Batch& batch, const TreeLimits& limits) : batch_(batch), limits_(limits) {}

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

  bool same(int32_t first, int32_t second) const {
    const auto a = static_cast<size_t>(first), b = static_cast<size_t>(second);
    return batch_.input_ids[a] == batch_.input_ids[b] && batch_.labels[a] == batch_.labels[b] &&
           batch_.position_ids[a] == batch_.position_ids[b] &&
           std::ranges::all_of(batch_.token_columns,
                               [&](const auto& column) { return column.second[a] == column.second[b]; });
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
      const auto next =
          std::ranges::find_if(children, [&](size_t child) { return same(nodes_[child].place, place); });
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
    std::ranges::replace(ends_, at, rest);
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

  const Batch& batch_;
  const TreeLimits limits_;
  std::vector<Node> nodes_;
  std::vector<Tree> trees_;
  std::vector<size_t> ends_;  // the last node of each document
};

template <typename T>
std::vector<T> gathered(const std::vector<T>& values, const std::vector<int32_t>& places) {
  std::vector<T> out;
  out.reserve(places.size());
  for (const int32_t place : places) out.push_back(values[static_cast<size_t>(place)]);
  return out;
}

using Group = std::vector<size_t>;  // places of rows in the order

// Says whether two rows share enough tokens at the beginning for a tree.
bool alike(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  const auto parted = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  const auto shared = parted.first - a.begin();
  const auto longer = static_cast<double>(std::max(a.size(), b.size()));
  return shared >= kWorthwhile.least && static_cast<double>(shared) >= kWorthwhile.share * longer;
}

// Groups the places of rows that begin alike, with no group larger than a batch. Sorted by their tokens, rows
// that share most are neighbours.
std::vector<Group> groups_of(const std::vector<int64_t>& rows, size_t most, const RowTokens& tokens) {
  std::vector<std::vector<int32_t>> ids;
  for (const int64_t row : rows) ids.push_back(tokens(row));
  Group sorted(rows.size());
  std::iota(sorted.begin(), sorted.end(), size_t{0});
  std::ranges::stable_sort(sorted, [&](size_t a, size_t b) { return ids[a] < ids[b]; });
  std::vector<Group> groups;
  for (size_t i = 0; i < sorted.size(); ++i) {
    const bool joins = i > 0 && groups.back().size() < most && alike(ids[sorted[i - 1]], ids[sorted[i]]);
    if (!joins) groups.emplace_back();
    groups.back().push_back(sorted[i]);
  }
  for (Group& group : groups) std::ranges::sort(group);
  std::ranges::sort(groups, [](const Group& a, const Group& b) {
    return a.size() != b.size() ? a.size() > b.size() : a.front() < b.front();
  });
  return groups;
}

}  // namespace

PrefixTree prefix_tree(const Batch& batch, const TreeLimits& limits) {
  Trie trie(batch, limits);
  for (size_t d = 0; d + 1 < batch.cu_seqlens.size(); ++d)
    trie.add(batch.cu_seqlens[d], batch.cu_seqlens[d + 1] - batch.cu_seqlens[d]);
  return trie.laid_out();
}

std::optional<Batch> shared_beginnings(const Batch& batch, const TreeLimits& limits) {
  if (!batch.parents.empty()) return std::nullopt;
  PrefixTree tree = prefix_tree(batch, limits);
  if (std::ssize(tree.tokens) == batch.tokens()) return std::nullopt;
  Batch out;
  static_cast<BatchRows&>(out) = batch;
  out.input_ids = gathered(batch.input_ids, tree.tokens);
  out.labels = gathered(batch.labels, tree.tokens);
  out.position_ids = gathered(batch.position_ids, tree.tokens);
  for (const auto& [name, values] : batch.token_columns)
    out.token_columns.emplace(name, gathered(values, tree.tokens));
  out.sequences = batch.sequences.empty() ? std::move(tree.ends) : gathered(tree.ends, batch.sequences);
  out.cu_seqlens = std::move(tree.cu_seqlens);
  out.parents = std::move(tree.parents);
  return out;
}

RowBatches brought_together(const RowBatches& batches, const RowTokens& tokens) {
  std::vector<int64_t> rows;
  std::vector<size_t> home, room;
  for (size_t b = 0; b < batches.size(); ++b) {
    rows.insert(rows.end(), batches[b].begin(), batches[b].end());
    home.resize(rows.size(), b);
    room.push_back(batches[b].size());
  }
  std::vector<Group> places(batches.size());
  const auto put = [&](const Group& group, size_t to) {
    if (room[to] < group.size()) return false;
    places[to].insert(places[to].end(), group.begin(), group.end());
    room[to] -= group.size();
    return true;
  };
  const auto put_next = [&](const Group& group) {
    size_t tried = 0;
    while (tried < room.size() && !put(group, (home[group.front()] + tried) % room.size())) ++tried;
    return tried < room.size();
  };
  const size_t most = room.empty() ? 0 : *std::ranges::max_element(room);
  Group alone, moved;
  for (const Group& group : groups_of(rows, most, tokens))
    if (group.size() == 1 || !put_next(group)) alone.insert(alone.end(), group.begin(), group.end());
  for (const size_t place : alone)
    if (!put({place}, home[place])) moved.push_back(place);
  for (const size_t place : moved) put_next({place});
  RowBatches out;
  for (Group& batch : places) {
    std::ranges::sort(batch);
    std::vector<int64_t>& own = out.emplace_back();
    for (const size_t place : batch) own.push_back(rows[place]);
  }
  return out;
}

std::vector<int64_t> WindowedOrder::batch(int64_t index, const RowTokens& tokens) {
  if (window_ == 0) return order_.batch(index);
  const int64_t begin = index / window_ * window_;
  if (begin != begin_) {
    RowBatches batches;
    for (int64_t i = begin; i < std::min(begin + window_, order_.size()); ++i)
      batches.push_back(order_.batch(i));
    batches_ = brought_together(batches, tokens);
    begin_ = begin;
  }
  return batches_[static_cast<size_t>(index - begin)];
}

}  // namespace trl::data
