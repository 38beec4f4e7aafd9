// Counts how often each length occurs: percentiles and histograms are exact for any number of rows.
#pragma once
#include <cstdint>
#include <map>

#include "telemetry/length_profile.h"

namespace trl::data {

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
