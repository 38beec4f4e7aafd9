// Packing: decides which pieces of which rows form each packed row (TRL's pack_dataset). It takes lengths and
// returns places; no tokens are moved here.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "config/dataset/data_arguments.h"

namespace trl::data {

// TRL packs inside each batch of its map, never across.
inline constexpr int64_t kPackingBlockRows = 1000;

// bfd: best fit decreasing; a row longer than a packed row loses its end. bfd_split: the same, but a longer
// row is first cut into pieces, so that no token is lost. wrapped: rows follow one another, and are cut
// wherever a packed row is full.
using config::Packing;

struct Piece {  // tokens [start, start + length) of a row
  int64_t row;
  int64_t start;
  int64_t length;
};
using Pack = std::vector<Piece>;

// Packs rows of these lengths into rows of at most `capacity` tokens, in TRL's order. Empty rows vanish.
// O(n log n). strategy is not none; capacity at least 1.
std::vector<Pack> pack(std::span<const int64_t> lengths, int64_t capacity, Packing strategy);

}  // namespace trl::data
