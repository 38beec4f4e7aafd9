// The order in which datasets 5.2 shuffles a stream (IterableDataset.shuffle): its inputs fill a buffer of a
// thousand rows in turn; a full buffer is permuted, and gives all but its last 500 rows.
#pragma once
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "data/source/numpy_shuffle.h"

namespace trl::data {

template <class T>
using Pull = std::function<bool(T&)>;  // false: the end

inline constexpr size_t kShuffleBuffer = 1000;
inline constexpr size_t kShuffleInputs = 10;  // at most; with more files, an input consists of several
inline constexpr size_t kPackedChunk = kShuffleBuffer / kShuffleInputs;

template <class T>
class ShuffleBuffer {
 public:
  // chunk: the number of rows that an input gives at each of its turns.
  ShuffleBuffer(std::vector<Pull<T>> inputs, size_t chunk, NumpyGenerator generator)
      : inputs_(std::move(inputs)), chunk_(chunk), generator_(generator) {}

  bool next(T& item) {
    if (given_ == giving_ && !fill()) return false;
    item = std::move(buffer_[given_++]);
    return true;
  }

 private:
  bool fill() {
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(given_));
    given_ = giving_ = 0;
    while (buffer_.size() < kShuffleBuffer && !inputs_.empty()) take_turn();
    std::vector<T> permuted;
    for (const uint32_t i : generator_.permutation<uint32_t>(static_cast<int64_t>(buffer_.size())))
      permuted.push_back(std::move(buffer_[i]));
    buffer_ = std::move(permuted);
    giving_ = buffer_.size() < kShuffleBuffer ? buffer_.size() : buffer_.size() - kShuffleBuffer / 2;
    return giving_ > 0;
  }
  void take_turn() {
    size_t taken = 0;
    for (T item; taken < chunk_ && inputs_[turn_](item); ++taken) buffer_.push_back(std::move(item));
    if (taken == 0)
      inputs_.erase(inputs_.begin() + static_cast<std::ptrdiff_t>(turn_));
    else
      ++turn_;
    if (turn_ >= inputs_.size()) turn_ = 0;
  }

  std::vector<Pull<T>> inputs_;
  const size_t chunk_;
  NumpyGenerator generator_;
  size_t turn_ = 0;
  std::vector<T> buffer_;
  size_t given_ = 0, giving_ = 0;  // from the front
};

// Divides neighbours into at most kShuffleInputs groups of sizes as equal as possible, the longer ones first.
std::vector<std::vector<size_t>> neighbours(const std::vector<size_t>& of);

// Orders the files of a stream that was shuffled this many times. Their order changes with every epoch, even
// if rows are not shuffled.
std::vector<size_t> shard_order(size_t shards, uint64_t seed, int shuffles, int64_t epoch);

// Makes the generator that permutes the buffers in this epoch.
NumpyGenerator epoch_generator(uint64_t seed, int64_t epoch);

}  // namespace trl::data
