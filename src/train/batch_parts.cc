#include "train/batch_parts.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "base/error.h"

namespace trl::train {

namespace {

// Where parts of at most so many tokens begin and end, as places in the borders of the documents.
std::vector<size_t> cut(const std::vector<int32_t>& borders, int64_t most) {
  std::vector<size_t> places{0};
  for (size_t d = 0; d + 1 < borders.size(); ++d) {
    const int32_t begin = borders[places.back()];
    if (borders[d] > begin && borders[d + 1] - begin > most) places.push_back(d);
  }
  places.push_back(borders.size() - 1);
  return places;
}

// The same number of parts with the lowest bound.
std::vector<size_t> cut_evenly(const std::vector<int32_t>& borders, int64_t most) {
  const size_t places = cut(borders, most).size();
  int64_t low = 1, high = most;
  while (low < high) {
    const int64_t bound = low + (high - low) / 2;
    if (cut(borders, bound).size() > places) {
      low = bound + 1;
    } else {
      high = bound;
    }
  }
  return cut(borders, high);
}

kernels::SegmentsPtr segments_of(const std::vector<int32_t>& borders, size_t begin, size_t end) {
  auto segments = std::make_shared<kernels::Segments>();
  for (size_t d = begin; d <= end; ++d) segments->cu_seqlens.push_back(borders[d] - borders[begin]);
  for (size_t d = begin; d < end; ++d)
    segments->max_length = std::max<int64_t>(segments->max_length, borders[d + 1] - borders[d]);
  return segments;
}

}  // namespace

std::vector<MicroBatch> parts_of(const MicroBatch& batch, std::optional<int64_t> most_tokens) {
  if (!most_tokens || batch.input_ids.numel() <= *most_tokens) return {batch};
  if (!batch.segments->prefix.empty())
    fail(Status::internal, "documents that share a prefix were to be cut apart");
  const std::vector<int32_t>& borders = batch.segments->cu_seqlens;
  const std::vector<size_t> places = cut_evenly(borders, *most_tokens);
  std::vector<MicroBatch> parts;
  for (size_t i = 0; i + 1 < places.size(); ++i) {
    const int64_t first = borders[places[i]], count = borders[places[i + 1]] - first;
    MicroBatch& part = parts.emplace_back(batch);
    part.first = first;
    part.segments = segments_of(borders, places[i], places[i + 1]);
    part.targets = part_of(batch.targets, first, count);
    for (at::Tensor* x : {&part.input_ids, &part.position_ids}) *x = x->narrow(0, first, count);
  }
  return parts;
}

void each_part(const std::vector<MicroBatch>& parts, BatchLoss& loss, const PartForward& forward,
               const PartBackward& backward) {
  if (parts.size() > 1 && loss.measures()) {
    const at::NoGradGuard no_graph;
    for (const MicroBatch& part : parts) loss.measure(forward(part), part);
  }
  for (const MicroBatch& part : parts) {
    const at::Tensor share = loss.share(forward(part), part);
    if (!backward(share, &part == &parts.back())) return;
  }
}

}  // namespace trl::train
