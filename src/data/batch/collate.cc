#include "data/batch/collate.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace trl::data {

namespace {

int64_t round_up(int64_t value, int64_t multiple) {
  if (multiple < 1)
    fail(Status::invalid_argument, "pad_to_multiple_of: {}: at least 1 is accepted", multiple);
  return (value + multiple - 1) / multiple * multiple;
}

int64_t length_of(const Example& example) { return static_cast<int64_t>(example.input_ids.size()); }

}  // namespace

void collate(std::span<const Example> examples, const BatchLayout& layout, Batch& out) {
  out = {};
  out.cu_seqlens.push_back(0);
  int64_t tokens = 0, longest_row = 0;
  for (const Example& example : examples) {
    tokens += length_of(example);
    longest_row = std::max(longest_row, length_of(example));
  }
  if (tokens > INT32_MAX)
    fail(Status::invalid_argument, "a micro-batch of {} tokens is too large: at most {}", tokens, INT32_MAX);
  out.position_ids.resize(static_cast<size_t>(tokens));
  size_t at = 0;
  for (const Example& example : examples) {
    out.input_ids.insert(out.input_ids.end(), example.input_ids.begin(), example.input_ids.end());
    out.labels.insert(out.labels.end(), example.labels.begin(), example.labels.end());
    out.row_ids.insert(out.row_ids.end(), example.source_rows.begin(), example.source_rows.end());
    for (const int32_t length : example.seq_lengths) {
      if (length == 0) continue;
      const auto begin = out.position_ids.begin() + static_cast<std::ptrdiff_t>(at);
      std::iota(begin, begin + length, 0);
      if (layout.padding_free) out.labels[at] = kIgnored;
      at += static_cast<size_t>(length);
      out.cu_seqlens.push_back(static_cast<int32_t>(at));
    }
  }
  out.rows = static_cast<int64_t>(examples.size());
  out.width = round_up(layout.padding_free ? tokens : longest_row, layout.pad_to_multiple_of);
  out.input_numel = layout.padding_free ? out.width : out.rows * out.width;
  out.num_tokens = layout.padding_free ? out.width : tokens;
  out.non_padding_tokens = tokens;
  if (layout.padding_free) out.non_padding_tokens -= std::ranges::count(out.input_ids, layout.pad_id);
}

}  // namespace trl::data
