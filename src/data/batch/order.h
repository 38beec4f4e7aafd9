// Orders the rows of an epoch into micro-batches, as Trainer's samplers and Accelerate's shards do.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/arithmetic/random.h"
#include "config/dataset/data_arguments.h"

namespace trl::data {

using config::Sampling;

struct OrderOptions {
  int64_t rows = 0;
  int64_t batch_size = 8;
  std::string_view batch_key = "per_device_train_batch_size";  // option that sets it, for messages
  Sampling sampling = Sampling::random;
  bool drop_last = false;
  uint64_t seed = 42;          // random: data_seed, or seed; group_by_length: seed
  int64_t group_batch = 8;     // group_by_length: rows of one update; in an evaluation: of one batch
  bool may_be_empty = false;   // true for evaluation, which may have no batch
  bool own_generator = false;  // group_by_length: true for evaluation, whose passes are all alike
  int64_t rank = 0;            // of the process, which takes batches rank, rank + ranks, ...
  int64_t ranks = 1;
  int64_t prefix_window = 0;  // share_prefix_window (prefix_tree.h); 0: off
};

// Orders rows by length, longest first, inside each piece of a random permutation (transformers'
// LengthGroupedSampler).
std::vector<uint32_t> length_grouped(std::span<const uint32_t> lengths, int64_t batch_size,
                                     base::TorchGenerator& generator);

// Returns all rows in the order of an epoch; sequential: empty. The arguments are EpochOrder's.
std::vector<uint32_t> epoch_rows(const OrderOptions& options, int64_t epoch,
                                 std::span<const uint32_t> lengths = {},
                                 std::span<const int64_t> evaluations_before = {});

// The batches of one epoch. At most 2^32 - 1 rows.
class EpochOrder {
 public:
  EpochOrder() = default;
  // lengths: of every row, for group_by_length; else unused. evaluations_before: the number of evaluation
  // passes before the beginning of each epoch up to this one; empty if there were no evaluations.
  EpochOrder(const OrderOptions& options, int64_t epoch, std::span<const uint32_t> lengths = {},
             std::span<const int64_t> evaluations_before = {});
  int64_t size() const { return batches_; }
  std::vector<int64_t> batch(int64_t index) const;

 private:
  OrderOptions options_;
  int64_t batches_ = 0;
  std::vector<uint32_t> rows_;  // in order; sequential: empty
};
// Counts the batches of each epoch. Throws Error(invalid_config) if drop_last leaves no batch.
int64_t batches_per_epoch(const OrderOptions& options);

}  // namespace trl::data
