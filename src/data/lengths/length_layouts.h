// Keeps the lengths of all rows in little memory, and computes the cost of each max_length.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <unordered_map>
#include <vector>

#include "base/threads/thread_pool.h"
#include "data/batch/order.h"
#include "telemetry/length_profile.h"

namespace trl::data {

// Lengths in the order of the dataset: two bytes each, more for the few that do not fit, and one byte for the
// limits (up to 255) that leave a row something to train on.
class RowLengths {
 public:
  int64_t size() const { return static_cast<int64_t>(short_.size()); }
  void add(uint32_t length, uint8_t first_limit);
  uint32_t length(int64_t row) const {
    const uint16_t length = short_[static_cast<size_t>(row)];
    return length < kLong ? length : long_.at(row);
  }
  uint8_t first_limit(int64_t row) const { return first_limit_[static_cast<size_t>(row)]; }

 private:
  static constexpr uint16_t kLong = UINT16_MAX;
  std::deque<uint16_t> short_;  // never moved: growing a vector takes three times its size
  std::deque<uint8_t> first_limit_;
  std::unordered_map<int64_t, uint32_t> long_;
};

struct LayoutOptions {
  OrderOptions order;    // of the run's first epoch; its rows are those of a layout
  OrderOptions grouped;  // the same with train_sampling_strategy group_by_length
  int64_t accumulation = 1, pad_to_multiple_of = 1;
  bool shuffle = false;  // shuffle_dataset
  uint64_t seed = 42;    // seed of shuffle_dataset
};

// Computes the cost of each of kLayouts, and the number of dropped rows. max_length is number `limit` of the
// limits that RowLengths was filled for.
void lay_out(const RowLengths& rows, uint8_t limit, const LayoutOptions& options, base::ThreadPool& pool,
             telemetry::LengthLimit& out);

// Counts how often each length occurs: percentiles and histograms are exact for any number of rows.
class LengthCounts {
 public:
  void add(int64_t length) {
    ++counts_[length];
    ++rows_;
  }
  int64_t rows() const { return rows_; }
  int64_t tokens_above(int64_t length) const;  // beyond the first `length` of each row
  int64_t rows_above(int64_t length) const;
  telemetry::LengthDistribution distribution(std::string name) const;  // needs at least one row

 private:
  int64_t value_at(int64_t rank) const;  // among the sorted lengths, from 0
  double percentile(int percent) const;
  telemetry::LengthHistogram histogram(int64_t low, int64_t high, double p99) const;

  std::map<int64_t, int64_t> counts_;
  int64_t rows_ = 0;
};

}  // namespace trl::data
