#include "train/batches/targets.h"

#include <algorithm>
#include <numeric>

#include "base/files/hash.h"

namespace trl::train {

namespace {

constexpr int32_t kIgnored = -100;

struct Target {
  int32_t row, place, sequence;  // place: of the predicted token
};

// Returns a segment and its ancestors, the root first.
std::vector<int32_t> path_to(int32_t segment, const std::vector<int32_t>& parents) {
  std::vector<int32_t> path{segment};
  if (!parents.empty())
    while (parents[static_cast<size_t>(path.back())] >= 0)
      path.push_back(parents[static_cast<size_t>(path.back())]);
  std::ranges::reverse(path);
  return path;
}

// Returns the last segment of each sequence.
std::vector<int32_t> ends_of(const kernels::Segments& segments, std::span<const int32_t> ends) {
  if (!ends.empty()) return {ends.begin(), ends.end()};
  std::vector<int32_t> all(segments.cu_seqlens.size() - 1);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// Calls body(token) for the tokens of a sequence, in their order.
template <typename Body>
void each_token(const kernels::Segments& segments, int32_t end, const Body& body) {
  for (const int32_t segment : path_to(end, segments.prefix)) {
    const auto at = static_cast<size_t>(segment);
    for (int32_t i = segments.cu_seqlens[at]; i < segments.cu_seqlens[at + 1]; ++i) body(i);
  }
}

}  // namespace

Targets targets_of(const data::Batch& batch, const kernels::Segments& segments) {
  const int32_t* const labels = batch.labels.data();
  std::vector<Target> targets;
  int32_t sequence = 0;
  for (const int32_t end : ends_of(segments, batch.sequences)) {
    int32_t before = -1;
    each_token(segments, end, [&](int32_t i) {
      if (before >= 0 && labels[i] != kIgnored) targets.push_back({before, i, sequence});
      before = i;
    });
    ++sequence;
  }
  std::ranges::stable_sort(targets, [](const Target& a, const Target& b) { return a.row < b.row; });
  Targets out;
  for (const Target& target : targets) {
    out.tokens.rows.push_back(target.row);
    out.tokens.tokens.push_back(labels[target.place]);
    out.sequences.push_back(target.sequence);
  }
  for (const auto& [name, values] : batch.token_columns) {
    std::vector<float>& own = out.columns[name];
    for (const Target& target : targets) own.push_back(values[static_cast<size_t>(target.place)]);
  }
  return out;
}

std::vector<int32_t> count_labels(const data::Batch& batch, const kernels::Segments& segments) {
  std::vector<int32_t> counts;
  for (const int32_t end : ends_of(segments, batch.sequences)) {
    int32_t& count = counts.emplace_back(0);
    each_token(segments, end,
               [&](int32_t i) { count += batch.labels[static_cast<size_t>(i)] != kIgnored ? 1 : 0; });
  }
  return counts;
}

std::vector<int32_t> last_rows(const int32_t* ids, const kernels::Segments& segments,
                               std::span<const int32_t> ends, int32_t pad) {
  std::vector<int32_t> rows;
  for (const int32_t end : ends_of(segments, ends)) {
    int32_t last = -1;
    each_token(segments, end, [&](int32_t i) {
      if (last < 0 || ids[i] != pad) last = i;
    });
    rows.push_back(last);
  }
  return rows;
}

std::vector<int32_t> count_tokens(const kernels::Segments& segments, std::span<const int32_t> ends) {
  std::vector<int32_t> counts;
  for (const int32_t end : ends_of(segments, ends)) {
    int32_t& count = counts.emplace_back(0);
    each_token(segments, end, [&](int32_t) { ++count; });
  }
  return counts;
}

std::vector<int32_t> count_sequences(const kernels::Segments& segments, std::span<const int32_t> ends) {
  std::vector<int32_t> counts(segments.cu_seqlens.size() - 1, 0);
  for (const int32_t end : ends_of(segments, ends))
    for (const int32_t segment : path_to(end, segments.prefix)) ++counts[static_cast<size_t>(segment)];
  return counts;
}

Targets part_of(const Targets& targets, int64_t first, int64_t count) {
  const std::vector<int32_t>& rows = targets.tokens.rows;
  const auto begin = std::ranges::lower_bound(rows, first) - rows.begin();
  const auto end = std::ranges::lower_bound(rows, first + count) - rows.begin();
  const auto taken = [&](const auto& all) {
    return std::decay_t<decltype(all)>(all.begin() + begin, all.begin() + end);
  };
  Targets out{{taken(rows), taken(targets.tokens.tokens)}, taken(targets.sequences), {}};
  for (const auto& [name, values] : targets.columns) out.columns.emplace(name, taken(values));
  for (int32_t& row : out.tokens.rows) row -= static_cast<int32_t>(first);
  return out;
}

std::vector<uint64_t> digests_of(const Targets& targets, const kernels::Segments& segments,
                                 const int32_t* ids, int64_t sequences) {
  const std::vector<int32_t>&rows = targets.tokens.rows, &tokens = targets.tokens.tokens;
  std::vector<std::vector<size_t>> of_sequence(static_cast<size_t>(sequences));
  for (size_t i = 0; i < targets.sequences.size(); ++i)
    of_sequence[static_cast<size_t>(targets.sequences[i])].push_back(i);
  std::vector<uint64_t> digests(of_sequence.size());
  std::vector<int32_t> content;
  for (size_t s = 0; s < digests.size(); ++s) {
    const std::vector<size_t>& own = of_sequence[s];
    if (own.empty()) continue;
    const int32_t last = rows[own.back()];
    const auto segment =
        std::ranges::upper_bound(segments.cu_seqlens, last) - segments.cu_seqlens.begin() - 1;
    content.clear();
    size_t next = 0;
    each_token(segments, static_cast<int32_t>(segment), [&](int32_t row) {
      if (row > last) return;
      content.push_back(ids[row]);
      if (next < own.size() && rows[own[next]] == row) content.push_back(-1 - tokens[own[next++]]);
    });
    digests[s] =
        base::xxh3_64({reinterpret_cast<const char*>(content.data()), content.size() * sizeof(int32_t)});
  }
  return digests;
}

}  // namespace trl::train
