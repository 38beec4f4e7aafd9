// The rows of micro-batches as they go through the model. A loss that is a sum over sequences may take those
// of a whole window together: rows that begin alike share their beginning whatever micro-batch they are in,
// and rows that have nothing to teach go through no backward.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "data/batch/prefix_tree.h"
#include "train/batches/micro_batch.h"

namespace trl::train {

// A sequence of a micro-batch, both by number.
struct Place {
  size_t batch = 0, sequence = 0;
};

struct Joint {
  size_t batches = 1;             // how many micro-batches, the first of the window
  std::vector<MicroBatch> parts;  // their targets have sequences numbered through all parts
  size_t silent = 0;              // the first parts: their rows have nothing to teach
  std::vector<Place> places;      // of each sequence
  int64_t silent_rows = 0;        // rows in these parts, or in none
  int64_t left_out = 0;           // tokens of rows in none
  std::vector<Place> generated;   // rows in none whose values generation recorded

  size_t learning() const { return parts.size() - silent; }
  int64_t tokens() const { return tokens_of(parts); }
  int64_t silent_tokens() const { return tokens_of(std::span(parts).first(silent)); }
  static int64_t tokens_of(std::span<const MicroBatch> parts);
};

struct JointRules {
  int64_t vocab_size = 0;
  std::optional<data::TreeLimits> share;  // none: rows share nothing
  std::optional<int64_t> most_tokens;     // of a part
  bool skips_silent = false;              // rows whose advantage is 0 have nothing to teach
};

// A micro-batch by itself, in parts of at most `most_tokens`.
Joint alone(const MicroBatch& batch, std::optional<int64_t> most_tokens);

// Returns the tokens that a part may have if the largest micro-batch of the window has so many, and the
// largest tree of rows that begin alike. A tree that is cut computes its beginning once for each of its
// parts, and therefore may be half as large again as a micro-batch.
inline int64_t largest_part(int64_t micro_batch, int64_t tree) {
  return tree > micro_batch && tree - micro_batch <= micro_batch / 2 ? tree : micro_batch;
}

// Joins the micro-batches of a window (MicroBatch::flat is set), in parts of at most largest_part() tokens.
// If nothing can be shared, and all rows teach, only the first is taken. Rows without targets, and those
// whose values generation recorded (kGenerated), are left out if silent ones are skipped.
Joint joined(std::span<const MicroBatch> window, const JointRules& rules);

}  // namespace trl::train
