// See packing.h. Best fit decreasing: the longest piece first (equal pieces in their order), each into the
// open pack with the least room that holds it; among equal packs, into the one that reached that room first.
#include "data/batch/packing.h"

#include <algorithm>
#include <deque>
#include <map>

namespace trl::data {

namespace {

class BestFit {
 public:
  BestFit(int64_t capacity, size_t first_row, std::vector<Pack>& packs)
      : capacity_(capacity), first_row_(static_cast<int64_t>(first_row)), packs_(packs) {}

  void place(Piece piece) {
    piece.row += first_row_;
    auto best = open_.lower_bound(piece.length);
    if (best == open_.end()) {
      packs_.emplace_back();
      best = open_.emplace(capacity_, std::deque<size_t>{packs_.size() - 1}).first;
    }
    const int64_t room = best->first - piece.length;
    const size_t pack = best->second.front();
    best->second.pop_front();
    if (best->second.empty()) open_.erase(best);
    packs_[pack].push_back(piece);
    if (room > 0) open_[room].push_back(pack);
  }

 private:
  const int64_t capacity_;
  const int64_t first_row_;
  std::vector<Pack>& packs_;
  std::map<int64_t, std::deque<size_t>> open_;  // packs by the room left in them
};

void pack_best_fit(std::span<const int64_t> lengths, size_t first_row, int64_t capacity, bool split,
                   std::vector<Pack>& packs) {
  Pack pieces;
  for (size_t row = 0; row < lengths.size(); ++row) {
    for (int64_t start = 0; start < lengths[row]; start += capacity) {
      pieces.push_back({static_cast<int64_t>(row), start, std::min(capacity, lengths[row] - start)});
      if (!split) break;
    }
  }
  std::ranges::stable_sort(pieces, [](const Piece& a, const Piece& b) { return a.length > b.length; });
  BestFit fit(capacity, first_row, packs);
  for (const Piece& piece : pieces) fit.place(piece);
}

void pack_wrapped(std::span<const int64_t> lengths, size_t first_row, int64_t capacity,
                  std::vector<Pack>& packs) {
  int64_t room = 0;
  for (size_t row = 0; row < lengths.size(); ++row) {
    for (int64_t start = 0; start < lengths[row];) {
      if (room == 0) {
        packs.emplace_back();
        room = capacity;
      }
      const int64_t length = std::min(room, lengths[row] - start);
      packs.back().push_back({static_cast<int64_t>(first_row + row), start, length});
      start += length;
      room -= length;
    }
  }
}

}  // namespace

std::vector<Pack> pack(std::span<const int64_t> lengths, int64_t capacity, Packing strategy) {
  std::vector<Pack> packs;
  constexpr size_t kBlock = kPackingBlockRows;
  for (size_t begin = 0; begin < lengths.size(); begin += kBlock) {
    const auto block = lengths.subspan(begin, std::min(kBlock, lengths.size() - begin));
    if (strategy == Packing::wrapped)
      pack_wrapped(block, begin, capacity, packs);
    else
      pack_best_fit(block, begin, capacity, strategy == Packing::bfd_split, packs);
  }
  return packs;
}

}  // namespace trl::data
