// Order and collation: which rows make up a micro-batch, and how their tokens lie in it.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "data/sft.h"

namespace trl::data {

uint64_t fingerprint(const Examples& examples) {
  base::Xxh3 hash;
  const auto add = [&](const void* data, int64_t bytes) {
    hash.update({static_cast<const char*>(data), static_cast<size_t>(bytes)});
  };
  std::vector<int32_t> labels;
  for (int64_t row = 0; row < examples.size(); ++row) {
    const auto [ids, length] = examples.input_ids(row);
    labels.resize(static_cast<size_t>(length));
    examples.copy_labels(row, labels.data());
    add(&length, sizeof length);
    add(ids, length * 4);
    add(labels.data(), length * 4);
  }
  return hash.digest();
}

void collate(const Examples& examples, const std::vector<int64_t>& rows, HostBatch& out) {
  out.row_ids.clear();
  out.cu_seqlens.assign(1, 0);
  out.max_length = 0;
  int64_t tokens = 0;
  for (const int64_t row : rows) tokens += examples.input_ids(row).second;
  if (tokens > INT32_MAX)
    fail(Status::invalid_argument, "a micro-batch of {} tokens is too large: at most {}", tokens, INT32_MAX);
  out.input_ids.resize(static_cast<size_t>(tokens));
  out.labels.resize(static_cast<size_t>(tokens));
  out.position_ids.resize(static_cast<size_t>(tokens));
  int64_t at = 0;
  for (const int64_t row : rows) {
    const auto [ids, length] = examples.input_ids(row);
    std::copy_n(ids, length, out.input_ids.begin() + at);
    examples.copy_labels(row, out.labels.data() + at);
    std::iota(out.position_ids.begin() + at, out.position_ids.begin() + at + length, 0);
    at += length;
    out.cu_seqlens.push_back(static_cast<int32_t>(at));
    out.row_ids.push_back(examples.source_row(row));
    out.max_length = std::max(out.max_length, length);
  }
  out.counted_tokens = tokens;
}

PaddedBatch pad(const HostBatch& batch, int32_t pad_id, int64_t pad_to_multiple_of) {
  if (pad_to_multiple_of < 1)
    fail(Status::invalid_argument, "pad_to_multiple_of: {}: at least 1 is accepted", pad_to_multiple_of);
  PaddedBatch out;
  out.rows = static_cast<int64_t>(batch.cu_seqlens.size()) - 1;
  out.width = (batch.max_length + pad_to_multiple_of - 1) / pad_to_multiple_of * pad_to_multiple_of;
  const size_t cells = static_cast<size_t>(out.rows * out.width);
  out.input_ids.assign(cells, pad_id);
  out.labels.assign(cells, -100);
  out.attention_mask.assign(cells, 0);
  for (int64_t row = 0; row < out.rows; ++row) {
    const int64_t begin = batch.cu_seqlens[static_cast<size_t>(row)];
    const int64_t length = batch.cu_seqlens[static_cast<size_t>(row) + 1] - begin;
    const int64_t cell = row * out.width;
    std::copy_n(batch.input_ids.begin() + begin, length, out.input_ids.begin() + cell);
    std::copy_n(batch.labels.begin() + begin, length, out.labels.begin() + cell);
    std::fill_n(out.attention_mask.begin() + cell, length, 1);
  }
  return out;
}

// Epoch e of the random order is randperm of a generator of its own, seeded with seed + e.
std::vector<std::vector<int64_t>> epoch_order(const OrderOptions& options, int64_t epoch) {
  std::vector<int64_t> rows(static_cast<size_t>(options.rows));
  if (options.sequential) {
    std::iota(rows.begin(), rows.end(), 0);
  } else {
    base::TorchGenerator generator(options.seed + static_cast<uint64_t>(epoch));
    rows = base::randperm(options.rows, generator);
  }
  std::vector<std::vector<int64_t>> batches;
  for (int64_t begin = 0; begin < options.rows; begin += options.batch_size) {
    const int64_t end = std::min(options.rows, begin + options.batch_size);
    if (options.drop_last && end - begin < options.batch_size) break;
    batches.emplace_back(rows.begin() + begin, rows.begin() + end);
  }
  return batches;
}

BatchStream::BatchStream(const Examples& examples, OrderOptions options)
    : examples_(examples), options_(options) {
  options_.rows = examples.size();
  if (options_.batch_size < 1)
    fail(Status::invalid_argument, "batch size {}: at least 1 is accepted", options_.batch_size);
  const int64_t whole = options_.rows / options_.batch_size;
  const bool rest = options_.rows % options_.batch_size != 0;
  batches_per_epoch_ = whole + (rest && !options_.drop_last ? 1 : 0);
  if (batches_per_epoch_ == 0) {
    fail_key("dataloader_drop_last",
             "dataloader_drop_last: {} rows are fewer than one batch of {}, so no batch is left",
             options_.rows, options_.batch_size);
  }
}

void BatchStream::start_epoch(int64_t epoch, int64_t skip) {
  order_ = epoch_order(options_, epoch);
  at_ = static_cast<size_t>(std::clamp<int64_t>(skip, 0, batches_per_epoch_));
}

bool BatchStream::next(HostBatch& batch) {
  if (at_ >= order_.size()) return false;
  collate(examples_, order_[at_++], batch);
  return true;
}

}  // namespace trl::data
