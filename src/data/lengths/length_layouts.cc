// See length_layouts.h. Every layout is a list of lengths, of rows or of packed rows, in the order of the
// batches of a run.
#include "data/lengths/length_layouts.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "data/batch/packing.h"
#include "data/source/numpy_shuffle.h"

namespace trl::data {

namespace {

using telemetry::Layout;
using Lengths = std::vector<uint32_t>;

int64_t up_to_multiple(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

Packing packing_of(Layout layout) {
  return layout == Layout::bfd         ? Packing::bfd
         : layout == Layout::bfd_split ? Packing::bfd_split
                                       : Packing::wrapped;
}

// Batches one after another, laid out as the collators do.
class LaidBatches {
 public:
  LaidBatches(Layout layout, const OrderOptions& order, const LayoutOptions& options)
      : order_(order), options_(options) {
    flat_ = layout == Layout::padding_free || layout == Layout::bfd || layout == Layout::bfd_split;
    cost_.layout = layout;
  }
  void add(int64_t length) {
    ++cost_.rows;
    ++rows_;
    sum_ += length;
    longest_ = std::max(longest_, length);
    if (rows_ == order_.batch_size) close();
  }
  telemetry::LayoutCost finish(int64_t dataset_tokens) {
    if (rows_ > 0 && !order_.drop_last) close();
    cost_.steps = up_to_multiple(cost_.batches, options_.accumulation) / options_.accumulation;
    cost_.lost = dataset_tokens - cost_.tokens;
    return cost_;
  }

 private:
  void close() {
    const int64_t cells = flat_ ? up_to_multiple(sum_, options_.pad_to_multiple_of)
                                : rows_ * up_to_multiple(longest_, options_.pad_to_multiple_of);
    ++cost_.batches;
    cost_.tokens += sum_;
    cost_.padding += cells - sum_;
    rows_ = sum_ = longest_ = 0;
  }

  const OrderOptions& order_;
  const LayoutOptions& options_;
  bool flat_;
  telemetry::LayoutCost cost_;
  int64_t rows_ = 0, sum_ = 0, longest_ = 0;
};

class Layouts {
 public:
  Layouts(const RowLengths& rows, uint8_t limit, int64_t max_length, const LayoutOptions& options,
          base::ThreadPool& pool)
      : rows_(rows), limit_(limit), max_length_(max_length), options_(options), pool_(pool) {}

  void run(telemetry::LengthLimit& out) {
    int64_t tokens = 0;
    for (int64_t row = 0; row < rows_.size(); ++row) {
      tokens += rows_.length(row);
      out.rows_dropped += rows_.first_limit(row) > limit_ ? 1 : 0;
    }
    for (const Layout layout : telemetry::kLayouts) {
      LaidBatches batches(layout, order_of(layout), options_);
      for (const uint32_t length : in_order(layout)) batches.add(length);
      out.layouts.push_back(batches.finish(tokens));
    }
  }

 private:
  // Returns the lengths in the order in which the batches of a run read them.
  Lengths in_order(Layout layout) const {
    Lengths lengths;
    if (!telemetry::is_packed(layout)) lengths.reserve(static_cast<size_t>(rows_.size()));
    each(layout, [&](uint32_t length) { lengths.push_back(length); });
    if (options_.shuffle) reorder(lengths, numpy_permutation<uint32_t>(options_.seed, count(lengths)));
    OrderOptions order = order_of(layout);
    order.rows = count(lengths);
    if (order.sampling != Sampling::sequential) reorder(lengths, epoch_rows(order, 0, lengths));
    return lengths;
  }

  const OrderOptions& order_of(Layout layout) const {
    return layout == Layout::group_by_length ? options_.grouped : options_.order;
  }

  static int64_t count(const Lengths& lengths) { return static_cast<int64_t>(lengths.size()); }

  static void reorder(Lengths& lengths, std::vector<uint32_t> order) {
    for (uint32_t& row : order) row = lengths[row];
    lengths = std::move(order);
  }

  template <typename Take>
  void each(Layout layout, const Take& take) const {
    telemetry::is_packed(layout) ? each_pack(packing_of(layout), take) : each_cut(take);
  }

  // Gives rows cut to max_length, without rows that lose all trained tokens.
  template <typename Take>
  void each_cut(const Take& take) const {
    for (int64_t row = 0; row < rows_.size(); ++row) {
      if (rows_.first_limit(row) > limit_) continue;
      take(static_cast<uint32_t>(std::min<int64_t>(rows_.length(row), max_length_)));
    }
  }

  // Gives packed rows. pack() never looks beyond kPackingBlockRows rows, so blocks may be packed separately.
  template <typename Take>
  void each_pack(Packing packing, const Take& take) const {
    std::vector<int64_t> order;
    if (options_.shuffle) order = numpy_permutation(options_.seed, rows_.size());
    std::array<Lengths, 64> packs;  // one for each block
    constexpr int64_t kAtOnce = static_cast<int64_t>(std::tuple_size_v<decltype(packs)>);
    const int64_t blocks = up_to_multiple(rows_.size(), kPackingBlockRows) / kPackingBlockRows;
    for (int64_t first = 0; first < blocks; first += kAtOnce) {
      const int64_t count = std::min(kAtOnce, blocks - first);
      pool_.parallel_for(count, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          packs[static_cast<size_t>(i)] = packed_block(packing, order, (first + i) * kPackingBlockRows);
      });
      for (int64_t i = 0; i < count; ++i)
        for (const uint32_t length : packs[static_cast<size_t>(i)]) take(length);
    }
  }

  Lengths packed_block(Packing packing, const std::vector<int64_t>& order, int64_t begin) const {
    std::vector<int64_t> lengths;
    for (int64_t row = begin; row < std::min(rows_.size(), begin + kPackingBlockRows); ++row)
      lengths.push_back(rows_.length(order.empty() ? row : order[static_cast<size_t>(row)]));
    Lengths sums;
    for (const Pack& pack : pack(lengths, max_length_, packing)) {
      int64_t sum = 0;
      for (const Piece& piece : pack) sum += piece.length;
      sums.push_back(static_cast<uint32_t>(sum));
    }
    return sums;
  }

  const RowLengths& rows_;
  const uint8_t limit_;
  const int64_t max_length_;
  const LayoutOptions& options_;
  base::ThreadPool& pool_;
};

constexpr int64_t kMostBars = 60;

// The smallest of 1, 2, 5, 10, 20, 50 ... with which no more than kMostBars bars cover the span.
int64_t bar_width(int64_t span) {
  for (int64_t power = 1;; power *= 10) {
    for (const int64_t unit : {1, 2, 5})
      if (span / (unit * power) < kMostBars) return unit * power;
  }
}

}  // namespace

void RowLengths::add(uint32_t length, uint8_t first_limit) {
  if (length >= kLong) long_.emplace(size(), length);
  short_.push_back(static_cast<uint16_t>(std::min<uint32_t>(length, kLong)));
  first_limit_.push_back(first_limit);
}

void lay_out(const RowLengths& rows, uint8_t limit, const LayoutOptions& options, base::ThreadPool& pool,
             telemetry::LengthLimit& out) {
  Layouts(rows, limit, out.max_length, options, pool).run(out);
}

int64_t LengthCounts::rows_above(int64_t length) const {
  int64_t rows = 0;
  for (auto at = counts_.upper_bound(length); at != counts_.end(); ++at) rows += at->second;
  return rows;
}

int64_t LengthCounts::tokens_above(int64_t length) const {
  int64_t tokens = 0;
  for (auto at = counts_.upper_bound(length); at != counts_.end(); ++at)
    tokens += (at->first - length) * at->second;
  return tokens;
}

int64_t LengthCounts::value_at(int64_t rank) const {
  for (const auto& [length, count] : counts_) {
    rank -= count;
    if (rank < 0) return length;
  }
  return counts_.rbegin()->first;
}

// Follows numpy's default: place (n - 1) * percent / 100 between the sorted values, linearly.
double LengthCounts::percentile(int percent) const {
  const int64_t place = (rows_ - 1) * percent;
  const double low = static_cast<double>(value_at(place / 100));
  const double high = static_cast<double>(value_at(std::min(place / 100 + 1, rows_ - 1)));
  return low + (high - low) * (static_cast<double>(place % 100) / 100);
}

telemetry::LengthDistribution LengthCounts::distribution(std::string name) const {
  telemetry::LengthDistribution out;
  out.name = std::move(name);
  out.rows = rows_;
  out.tokens = tokens_above(0);
  out.min = counts_.begin()->first;
  out.max = counts_.rbegin()->first;
  out.mean = static_cast<double>(out.tokens) / static_cast<double>(rows_);
  for (size_t i = 0; i < telemetry::kPercentiles.size(); ++i)
    out.percentiles[i] = percentile(telemetry::kPercentiles[i]);
  out.histogram = histogram(out.min, out.max, out.percentiles.back());
  return out;
}

// Makes bars from 0, or from the shortest row if all rows are of about the same length. If the longest row is
// more than twice the 99th percentile, the bars end there: a few rows would squeeze all others into one bar.
telemetry::LengthHistogram LengthCounts::histogram(int64_t low, int64_t high, double p99) const {
  telemetry::LengthHistogram out;
  const int64_t end = static_cast<double>(high) > 2 * p99 ? static_cast<int64_t>(std::ceil(p99)) : high;
  const int64_t start = low * 4 <= end ? 0 : low;
  out.width = bar_width(end - start);
  out.start = start / out.width * out.width;
  out.counts.resize(static_cast<size_t>((end - out.start) / out.width + 1));
  for (const auto& [length, count] : counts_) {
    const size_t bar = static_cast<size_t>((length - out.start) / out.width);
    (bar < out.counts.size() ? out.counts[bar] : out.above) += count;
  }
  return out;
}

}  // namespace trl::data
