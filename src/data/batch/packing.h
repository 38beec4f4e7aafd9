// Packing: which pieces of which rows make up each packed row (TRL's pack_dataset). Lengths in, places out:
// no tokens are moved here.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "config/data_arguments.h"

namespace trl::data {

// TRL packs inside each batch of its map, never across.
inline constexpr int64_t kPackingBlockRows = 1000;

// bfd: best fit decreasing; what is longer than a packed row loses its end. bfd_split: the same, but a longer
// row is cut into pieces first, so that no token is lost. wrapped: one row behind the other, cut where a
// packed row is full.
using config::Packing;

struct Piece {  // tokens [start, start + length) of a row
  int64_t row;
  int64_t start;
  int64_t length;
};
using Pack = std::vector<Piece>;

// Packed rows of at most `capacity` tokens, in TRL's order, for rows of these lengths. Empty rows vanish.
// O(n log n). strategy is not none; capacity at least 1.
std::vector<Pack> pack(std::span<const int64_t> lengths, int64_t capacity, Packing strategy);

}  // namespace trl::data
