#include "train/batch_parts.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace trl::train {

namespace {

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
    if (cut(borders, bound).size() > places) {
      low = bound + 1;
    } else {
      high = bound;
    }
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
  return segments;
}

}  // namespace

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

void each_part(const std::vector<MicroBatch>& parts, BatchLoss& loss, const PartForward& forward,
               const PartBackward& backward) {
  if (parts.size() > 1 && loss.measures()) {
    const bool learns = at::GradMode::is_enabled();
    const at::NoGradGuard no_graph;
    for (const MicroBatch& part : parts) loss.measure(forward(part), part);
    if (!learns) {
      backward(at::full({}, loss.value_measured(), at::kFloat), true);
      return;
    }
  }
  for (const MicroBatch& part : parts) {
    const at::Tensor share = loss.share(forward(part), part);
    if (!backward(share, &part == &parts.back())) return;
  }
}

}  // namespace trl::train
