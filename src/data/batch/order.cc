#include "data/batch/order.h"

#include <algorithm>
#include <numeric>

#include "base/arithmetic/divide.h"
#include "base/error.h"
#include "base/text/number.h"

namespace trl::data {

namespace {

// Counts the batches of all ranks. With several ranks the rows are filled up from their beginning until each
// rank has equally many full batches (accelerate's BatchSamplerShard, even_batches).
int64_t all_batches(const OrderOptions& o) {
  if (!o.drop_last) {
    return o.ranks == 1 ? base::divide_up(o.rows, o.batch_size)
                        : base::divide_up(o.rows, o.batch_size * o.ranks) * o.ranks;
  }
  return o.rows / o.batch_size / o.ranks * o.ranks;
}

// Groups rows by length. Trainer seeds torch's generator once for all epochs; in each epoch the loader draws
// one number, then the sampler its permutation. The loader of an evaluation draws a number too, while its
// sampler has a separate generator, made anew each time.
std::vector<uint32_t> grouped_order(const OrderOptions& options, int64_t epoch,
                                    std::span<const uint32_t> lengths,
                                    std::span<const int64_t> evaluations_before) {
  base::TorchGenerator generator(options.seed);
  if (options.own_generator) return length_grouped(lengths, options.group_batch, generator);
  int64_t evaluated = 0;
  for (int64_t at = 0; at <= epoch; ++at) {
    const auto place = static_cast<size_t>(at);
    const int64_t before = place < evaluations_before.size() ? evaluations_before[place] : evaluated;
    for (; evaluated < before; ++evaluated) generator.random_int64();
    generator.random_int64();
    if (at == epoch) break;
    for (int64_t i = 0; i + 1 < options.rows; ++i) generator.random32();
  }
  return length_grouped(lengths, options.group_batch, generator);
}

}  // namespace

// Cuts the rows into mega-batches and sorts each; then the longest row of all is swapped with the first one,
// so that a batch too large for the memory fails at once.
std::vector<uint32_t> length_grouped(std::span<const uint32_t> lengths, int64_t batch_size,
                                     base::TorchGenerator& generator) {
  const auto rows = static_cast<int64_t>(lengths.size());
  const int64_t mega = std::max<int64_t>(1, std::min<int64_t>(rows / (batch_size * 4), 50)) * batch_size;
  std::vector<uint32_t> order = base::randperm<uint32_t>(rows, generator);
  size_t longest = 0;
  for (int64_t begin = 0; begin < rows; begin += mega) {
    const auto from = order.begin() + begin;
    std::stable_sort(from, order.begin() + std::min(rows, begin + mega),
                     [&](uint32_t a, uint32_t b) { return lengths[a] > lengths[b]; });
    if (lengths[*from] > lengths[order[longest]]) longest = static_cast<size_t>(begin);
  }
  if (rows > 0) std::swap(order[0], order[longest]);
  return order;
}

std::vector<uint32_t> epoch_rows(const OrderOptions& options, int64_t epoch,
                                 std::span<const uint32_t> lengths,
                                 std::span<const int64_t> evaluations_before) {
  switch (options.sampling) {
    case Sampling::random: {
      base::TorchGenerator generator(options.seed + static_cast<uint64_t>(epoch));
      return base::randperm<uint32_t>(options.rows, generator);
    }
    case Sampling::group_by_length:
      return grouped_order(options, epoch, lengths, evaluations_before);
    case Sampling::sequential:
      break;
  }
  return {};
}

EpochOrder::EpochOrder(const OrderOptions& options, int64_t epoch, std::span<const uint32_t> lengths,
                       std::span<const int64_t> evaluations_before)
    : options_(options),
      batches_(batches_per_epoch(options)),
      rows_(epoch_rows(options, epoch, lengths, evaluations_before)) {}

std::vector<int64_t> EpochOrder::batch(int64_t index) const {
  const int64_t begin = (index * options_.ranks + options_.rank) * options_.batch_size;
  int64_t end = begin + options_.batch_size;
  if (options_.ranks == 1) end = std::min(end, options_.rows);
  std::vector<int64_t> rows;
  for (int64_t at = begin; at < end; ++at) {
    const int64_t place = at % options_.rows;
    rows.push_back(rows_.empty() ? place : rows_[static_cast<size_t>(place)]);
  }
  return rows;
}

int64_t batches_per_epoch(const OrderOptions& options) {
  if (options.batch_size < 1)
    fail(Status::invalid_argument, "batch size {}: at least 1 is accepted", options.batch_size);
  if (options.rows > UINT32_MAX)
    fail(Status::invalid_argument, "{} rows are too many: at most {}", options.rows, UINT32_MAX);
  const int64_t batches = all_batches(options) / options.ranks;
  if (batches == 0 && !options.may_be_empty) {
    fail_key("dataloader_drop_last",
             "dataloader_drop_last: {} {} fewer than one batch of {} ({}), so no batch is left; give a "
             "smaller batch, or dataloader_drop_last: false",
             base::quantity(options.rows, "row"), options.rows == 1 ? "is" : "are",
             options.batch_size * options.ranks, options.batch_key);
  }
  return batches;
}

}  // namespace trl::data
