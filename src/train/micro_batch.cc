#include "train/micro_batch.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "kernels/attention/tree_rows.h"
#include "tensor/memory/counted.h"

namespace trl::train {

namespace {

at::Tensor copy(const int32_t* values, int64_t count) {
  at::Tensor tensor = tensor::empty({count}, at::kInt, tensor::MemoryKind::data);
  if (count > 0)
    std::memcpy(tensor.data_ptr<int32_t>(), values, static_cast<size_t>(count) * sizeof(int32_t));
  return tensor;
}

void check_ids(const engine::Batch& batch, int64_t vocab_size) {
  for (int64_t i = 0; i < batch.tokens; ++i) {
    const int64_t id = batch.input_ids[i];
    const int64_t label = batch.labels[i];
    if (id < 0 || id >= vocab_size) {
      fail(Status::invalid_argument, "token id {} is not in the model's vocabulary [0, {})", id, vocab_size);
    }
    if (label != -100 && (label < 0 || label >= vocab_size)) {
      fail(Status::invalid_argument, "label {} is neither -100 nor in the model's vocabulary [0, {})", label,
           vocab_size);
    }
  }
}

kernels::SegmentsPtr copy_segments(const engine::Batch& batch) {
  auto segments = std::make_shared<kernels::Segments>();
  segments->cu_seqlens.assign(batch.cu_seqlens, batch.cu_seqlens + batch.documents + 1);
  const std::vector<int32_t>& borders = segments->cu_seqlens;
  if (borders.front() != 0 || borders.back() != batch.tokens ||
      !std::is_sorted(borders.begin(), borders.end())) {
    fail(Status::invalid_argument, "the document borders of a batch must rise from 0 to its {} tokens",
         batch.tokens);
  }
  for (size_t i = 1; i < borders.size(); ++i) {
    segments->max_length = std::max<int64_t>(segments->max_length, borders[i] - borders[i - 1]);
  }
  for (const int32_t end : batch.sequences) {
    if (end < 0 || end >= batch.documents)
      fail(Status::invalid_argument, "a sequence ends with segment {} of a batch of {}", end,
           batch.documents);
  }
  if (batch.parents == nullptr) return segments;
  segments->prefix.assign(batch.parents, batch.parents + batch.documents);
  kernels::check_order(*segments);
  segments->rows = count_sequences(*segments, batch.sequences);
  return segments;
}

void copy_sequences(const engine::Batch& batch, MicroBatch& own) {
  own.ends.assign(batch.sequences.begin(), batch.sequences.end());
  own.targets = targets_of(batch.labels, *own.segments, batch.sequences);
  own.sequence_labels = count_labels(batch.labels, *own.segments, batch.sequences);
  own.sequence_tokens = count_tokens(*own.segments, batch.sequences);
  for (const engine::SequenceColumn& column : batch.columns) {
    if (column.values.size() != own.sequence_labels.size())
      fail(Status::invalid_argument, "column '{}' of a batch has {} values for {} sequences", column.name,
           column.values.size(), own.sequences());
    own.columns.emplace(column.name, std::vector<float>(column.values.begin(), column.values.end()));
  }
}

}  // namespace

MicroBatch copy_batch(const engine::Batch& batch, int64_t vocab_size) {
  check_ids(batch, vocab_size);
  MicroBatch own;
  own.segments = copy_segments(batch);
  own.input_ids = copy(batch.input_ids, batch.tokens);
  own.position_ids = copy(batch.position_ids, batch.tokens);
  for (int64_t i = 0; i < batch.tokens; ++i)
    own.reach = std::max<int64_t>(own.reach, int64_t{batch.position_ids[i]} + 1);
  copy_sequences(batch, own);
  own.labels = std::accumulate(own.sequence_labels.begin(), own.sequence_labels.end(), int64_t{0});
  own.row_ids.assign(batch.row_ids, batch.row_ids + batch.row_id_count);
  own.rows = batch.rows;
  own.width = batch.width;
  own.elements = batch.elements;
  own.counted_tokens = batch.counted_tokens;
  own.real_tokens = batch.real_tokens;
  return own;
}

std::string row_list(const std::vector<const MicroBatch*>& batches) {
  constexpr size_t kNamed = 16;
  std::string out;
  size_t rows = 0;
  for (const MicroBatch* batch : batches) {
    for (int64_t row : batch->row_ids) {
      if (rows++ < kNamed) out += (out.empty() ? "" : ", ") + std::to_string(row);
    }
  }
  if (rows > kNamed) out += fmt::format(" and {} more", rows - kNamed);
  return out;
}

}  // namespace trl::train
