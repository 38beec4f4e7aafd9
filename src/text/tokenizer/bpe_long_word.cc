// Merges long words rank by rank: a merge's result waits under higher ranks, so all pairs of a rank are known
// at its turn. A place is visited once for each of its pairs, so the time is linear in the word.
#include <algorithm>
#include <functional>

#include "base/interrupt.h"
#include "text/tokenizer/bpe.h"

namespace trl::text {

namespace {
constexpr size_t kAhead = 16;                       // places that are fetched from memory early
constexpr size_t kPlacesPerPoll = size_t{1} << 14;  // places between two polls

// Sorts places, which form a few rising runs, one for each merge that made a part of the pair.
void sort_runs(std::vector<uint32_t>& places) {
  std::vector<size_t> runs = {0};
  for (size_t i = 1; i < places.size(); ++i) {
    if (places[i] < places[i - 1]) runs.push_back(i);
  }
  runs.push_back(places.size());
  const auto at = [&](size_t run) { return places.begin() + static_cast<ptrdiff_t>(runs[run]); };
  while (runs.size() > 2) {
    std::vector<size_t> longer;
    for (size_t run = 0; run + 1 < runs.size(); run += 2) {
      if (run + 2 < runs.size()) std::inplace_merge(at(run), at(run + 1), at(run + 2));
      longer.push_back(runs[run]);
    }
    longer.push_back(places.size());
    runs = std::move(longer);
  }
}
}  // namespace

void Bpe::place(size_t at, uint32_t rank, BpeSpace& space) const {
  std::vector<uint32_t>& places = space.places[rank];
  if (places.empty()) {
    space.waiting.push_back(rank);
    std::push_heap(space.waiting.begin(), space.waiting.end(), std::greater<>());
  }
  places.push_back(static_cast<uint32_t>(at));
}

// Returns the number of merged places, which are then at the front.
size_t Bpe::merge_at_once(uint32_t rank, std::vector<uint32_t>& places, BpeSpace& space) const {
  const auto& symbols = space.symbols;
  const Merge& merge = ranks_[rank];
  size_t merged = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    if (i + kAhead < places.size()) __builtin_prefetch(&symbols[places[i + kAhead]]);
    const auto& left = symbols[places[i]];
    if (left.length == 0 || left.next < 0 || left.id != merge.left ||
        symbols[static_cast<size_t>(left.next)].id != merge.right)
      continue;
    join(places[i], merge.merged, space);
    places[merged++] = places[i];
  }
  return merged;
}

// Merges a new pair at a place whose rank is not higher before the next place, as it is to the left of that.
void Bpe::merge_one_by_one(uint32_t rank, const std::vector<uint32_t>& places, BpeSpace& space) const {
  space.queue.clear();
  size_t done = 0;
  for (const uint32_t at : places) {
    if (++done % kPlacesPerPoll == 0) base::poll();
    space.queue.push_back(static_cast<uint64_t>(rank) << 32 | at);
    merge_queue(rank, space);
  }
}

void Bpe::merge_long(BpeSpace& space) const {
  const auto& symbols = space.symbols;
  space.places.resize(ranks_.size());
  for (size_t i = 0; i + 1 < symbols.size(); ++i) {
    if (i % kPlacesPerPoll == 0) base::poll();
    const auto* merge =
        merges_.find(static_cast<uint32_t>(symbols[i].id), static_cast<uint32_t>(symbols[i + 1].id));
    if (merge) place(i, merge->first, space);
  }
  while (!space.waiting.empty()) {
    base::poll();
    std::pop_heap(space.waiting.begin(), space.waiting.end(), std::greater<>());
    const uint32_t rank = space.waiting.back();
    space.waiting.pop_back();
    std::vector<uint32_t> places;
    places.swap(space.places[rank]);
    sort_runs(places);
    if (ranks_[rank].leads_back) {
      merge_one_by_one(rank, places, space);
      continue;
    }
    const size_t merged = merge_at_once(rank, places, space);
    for (size_t i = 0; i < merged; ++i) {
      if (i + kAhead < merged) __builtin_prefetch(&symbols[places[i + kAhead]]);
      const auto [id, length, previous, next] = symbols[places[i]];
      if (previous >= 0) push(static_cast<size_t>(previous), places[i], rank, space);
      const bool comes_up_there = i + 1 < merged && static_cast<uint32_t>(next) == places[i + 1];
      if (next >= 0 && !comes_up_there) push(places[i], static_cast<size_t>(next), rank, space);
    }
  }
}

}  // namespace trl::text
