#include "train/batches/micro_batch.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/attention/tree_rows.h"
#include "tensor/memory/counted.h"

namespace trl::train {

namespace {

at::Tensor copy(const std::vector<int32_t>& values) {
  at::Tensor tensor = tensor::empty({std::ssize(values)}, at::kInt, tensor::MemoryKind::data);
  std::ranges::copy(values, tensor.data_ptr<int32_t>());
  return tensor;
}

void check_count(std::string_view name, size_t have, int64_t want, std::string_view of) {
  if (static_cast<int64_t>(have) != want)
    fail(Status::invalid_argument, "{} of a batch has {} values for {} {}", name, have, want, of);
}

void check_tokens(const data::Batch& batch, int64_t vocab_size) {
  check_count("labels", batch.labels.size(), batch.tokens(), "tokens");
  check_count("position_ids", batch.position_ids.size(), batch.tokens(), "tokens");
  for (const auto* columns : {&batch.token_columns, &batch.states})
    for (const auto& [name, values] : *columns)
      check_count(fmt::format("column '{}'", name), values.size(), batch.tokens(), "tokens");
  for (const int32_t id : batch.input_ids)
    if (id < 0 || id >= vocab_size)
      fail(Status::invalid_argument, "token id {} is not in the model's vocabulary [0, {})", id, vocab_size);
  for (const int32_t label : batch.labels) {
    if (label != -100 && (label < 0 || label >= vocab_size))
      fail(Status::invalid_argument, "label {} is neither -100 nor in the model's vocabulary [0, {})", label,
           vocab_size);
  }
}

// Counts the padding at the end of each segment; empty: there is none.
std::vector<int32_t> count_padding(const data::Batch& batch) {
  const auto column = batch.token_columns.find(data::kPadding);
  if (column == batch.token_columns.end()) return {};
  const std::vector<float>& is_padding = column->second;
  if (std::ranges::count(is_padding, 0.0f) == std::ssize(is_padding)) return {};
  std::vector<int32_t> counts;
  for (size_t s = 0; s + 1 < batch.cu_seqlens.size(); ++s) {
    const int32_t begin = batch.cu_seqlens[s];
    int32_t end = batch.cu_seqlens[s + 1], count = 0;
    for (; end > begin && is_padding[static_cast<size_t>(end - 1)] != 0; --end) ++count;
    counts.push_back(count);
  }
  return counts;
}

kernels::SegmentsPtr copy_segments(const data::Batch& batch) {
  auto segments = std::make_shared<kernels::Segments>();
  const std::vector<int32_t>& borders = segments->cu_seqlens = batch.cu_seqlens;
  if (borders.empty() || borders.front() != 0 || borders.back() != batch.tokens() ||
      !std::ranges::is_sorted(borders)) {
    fail(Status::invalid_argument, "the document borders of a batch must rise from 0 to its {} tokens",
         batch.tokens());
  }
  for (size_t i = 1; i < borders.size(); ++i)
    segments->max_length = std::max<int64_t>(segments->max_length, borders[i] - borders[i - 1]);
  for (const int32_t end : batch.sequences) {
    if (end < 0 || end >= batch.segments())
      fail(Status::invalid_argument, "a sequence ends with segment {} of a batch of {}", end,
           batch.segments());
  }
  segments->padding = count_padding(batch);
  if (batch.parents.empty()) return segments;
  check_count("parents", batch.parents.size(), batch.segments(), "segments");
  segments->prefix = batch.parents;
  kernels::check_order(*segments);
  segments->rows = count_sequences(*segments, batch.sequences);
  return segments;
}

// Returns the first segment of each tree, followed by the number of all segments.
std::vector<size_t> first_segments(const kernels::Segments& segments) {
  std::vector<size_t> first;
  const size_t count = segments.cu_seqlens.size() - 1;
  for (size_t s = 0; s < count; ++s)
    if (segments.prefix.empty() || segments.prefix[s] < 0) first.push_back(s);
  first.push_back(count);
  return first;
}

// Returns the borders of parts of at most `most` tokens, as indices into the borders of the trees.
std::vector<size_t> cut(const std::vector<int32_t>& borders, int64_t most) {
  std::vector<size_t> places{0};
  for (size_t d = 0; d + 1 < borders.size(); ++d) {
    const int32_t begin = borders[places.back()];
    if (borders[d] > begin && borders[d + 1] - begin > most) places.push_back(d);
  }
  places.push_back(borders.size() - 1);
  return places;
}

// Cuts into the same number of parts with the lowest bound.
std::vector<size_t> cut_evenly(const std::vector<int32_t>& borders, int64_t most) {
  const size_t places = cut(borders, most).size();
  int64_t low = 1, high = most;
  while (low < high) {
    const int64_t bound = low + (high - low) / 2;
    if (cut(borders, bound).size() > places)
      low = bound + 1;
    else
      high = bound;
  }
  return cut(borders, high);
}

kernels::SegmentsPtr segments_of(const kernels::Segments& all, size_t begin, size_t end) {
  auto segments = std::make_shared<kernels::Segments>();
  const std::vector<int32_t>& borders = all.cu_seqlens;
  for (size_t s = begin; s <= end; ++s) segments->cu_seqlens.push_back(borders[s] - borders[begin]);
  for (size_t s = begin; s < end; ++s)
    segments->max_length = std::max<int64_t>(segments->max_length, borders[s + 1] - borders[s]);
  for (size_t s = begin; s < end && !all.prefix.empty(); ++s)
    segments->prefix.push_back(all.prefix[s] < 0 ? -1 : all.prefix[s] - static_cast<int32_t>(begin));
  for (size_t s = begin; s < end && !all.rows.empty(); ++s) segments->rows.push_back(all.rows[s]);
  for (size_t s = begin; s < end && !all.padding.empty(); ++s) segments->padding.push_back(all.padding[s]);
  return segments;
}

}  // namespace

MicroBatch copy_batch(const data::Batch& batch, int64_t vocab_size) {
  check_tokens(batch, vocab_size);
  MicroBatch own;
  static_cast<data::BatchRows&>(own) = batch;
  own.segments = copy_segments(batch);
  own.input_ids = copy(batch.input_ids);
  own.position_ids = copy(batch.position_ids);
  for (const int32_t position : batch.position_ids) own.reach = std::max<int64_t>(own.reach, position + 1);
  own.targets = targets_of(batch, *own.segments);
  own.sequence_labels = count_labels(batch, *own.segments);
  own.sequence_tokens = count_tokens(*own.segments, batch.sequences);
  for (const auto& [name, values] : own.columns)
    check_count(fmt::format("column '{}'", name), values.size(), own.sequence_count(), "sequences");
  return own;
}

std::string row_list(std::span<const MicroBatch> batches) {
  constexpr size_t kNamed = 16;
  std::string out;
  size_t rows = 0;
  for (const MicroBatch& batch : batches) {
    for (int64_t row : batch.row_ids)
      if (rows++ < kNamed) out += (out.empty() ? "" : ", ") + std::to_string(row);
  }
  if (rows > kNamed) out += fmt::format(" and {} more", rows - kNamed);
  return out;
}

std::vector<MicroBatch> parts_of(const MicroBatch& batch, std::optional<int64_t> most_tokens) {
  if (!most_tokens || batch.input_ids.numel() <= *most_tokens) return {batch};
  const std::vector<size_t> trees = first_segments(*batch.segments);
  std::vector<int32_t> borders;
  for (const size_t segment : trees) borders.push_back(batch.segments->cu_seqlens[segment]);
  const std::vector<size_t> places = cut_evenly(borders, *most_tokens);
  std::vector<MicroBatch> parts;
  for (size_t i = 0; i + 1 < places.size(); ++i) {
    const int64_t first = borders[places[i]], count = borders[places[i + 1]] - first;
    MicroBatch& part = parts.emplace_back(batch);
    part.first = first;
    part.segments = segments_of(*batch.segments, trees[places[i]], trees[places[i + 1]]);
    part.targets = part_of(batch.targets, first, count);
    for (at::Tensor* x : {&part.input_ids, &part.position_ids}) *x = x->narrow(0, first, count);
  }
  return parts;
}

}  // namespace trl::train
