#include "data/batch/prefix_window.h"

#include <algorithm>
#include <numeric>

#include "data/batch/prefix_tree.h"

namespace trl::data {

namespace {

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
  std::stable_sort(sorted.begin(), sorted.end(), [&](size_t a, size_t b) { return ids[a] < ids[b]; });
  std::vector<Group> groups;
  for (size_t i = 0; i < sorted.size(); ++i) {
    const bool joins = i > 0 && groups.back().size() < most && alike(ids[sorted[i - 1]], ids[sorted[i]]);
    if (!joins) groups.emplace_back();
    groups.back().push_back(sorted[i]);
  }
  for (Group& group : groups) std::sort(group.begin(), group.end());
  std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    return a.size() != b.size() ? a.size() > b.size() : a.front() < b.front();
  });
  return groups;
}

}  // namespace

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
  const size_t most = room.empty() ? 0 : *std::max_element(room.begin(), room.end());
  Group alone, moved;
  for (const Group& group : groups_of(rows, most, tokens))
    if (group.size() == 1 || !put_next(group)) alone.insert(alone.end(), group.begin(), group.end());
  for (const size_t place : alone)
    if (!put({place}, home[place])) moved.push_back(place);
  for (const size_t place : moved) put_next({place});
  RowBatches out;
  for (Group& batch : places) {
    std::sort(batch.begin(), batch.end());
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
