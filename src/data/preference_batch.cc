// See preference_batch.h.
#include "data/preference_batch.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "data/columns.h"

namespace trl::data {

namespace {

using Ids = std::vector<int32_t>;

void clear(HostBatch& batch) {
  for (Ids* values : {&batch.input_ids, &batch.labels, &batch.position_ids}) values->clear();
  batch.cu_seqlens.assign(1, 0);
  batch.row_ids.clear();
  batch.max_length = 0;
  batch.counted_tokens = 0;
}

void add_row(HostBatch& batch, const Ids& prompt, const Ids& completion, const Truncation& truncation,
             int64_t source_row) {
  const size_t begin = batch.input_ids.size();
  batch.input_ids.insert(batch.input_ids.end(), prompt.begin(), prompt.end());
  batch.input_ids.insert(batch.input_ids.end(), completion.begin(), completion.end());
  batch.labels.resize(begin + prompt.size(), kIgnored);
  batch.labels.insert(batch.labels.end(), completion.begin(), completion.end());
  const int64_t length = static_cast<int64_t>(batch.input_ids.size() - begin);
  const int64_t kept = std::min(length, truncation.max_length.value_or(length));
  for (Ids* values : {&batch.input_ids, &batch.labels}) {
    const auto row = values->begin() + static_cast<std::ptrdiff_t>(begin);
    if (truncation.keep_end && kept < length) std::copy(row + (length - kept), values->end(), row);
    values->resize(begin + static_cast<size_t>(kept));
  }
  if (batch.input_ids.size() > INT32_MAX) {
    fail(Status::invalid_argument, "a micro-batch of {} tokens is too large: at most {}",
         batch.input_ids.size(), INT32_MAX);
  }
  batch.position_ids.resize(batch.input_ids.size());
  std::iota(batch.position_ids.begin() + static_cast<std::ptrdiff_t>(begin), batch.position_ids.end(), 0);
  batch.cu_seqlens.push_back(static_cast<int32_t>(batch.input_ids.size()));
  batch.row_ids.push_back(source_row);
  batch.max_length = std::max(batch.max_length, kept);
  batch.counted_tokens = static_cast<int64_t>(batch.input_ids.size());
}

}  // namespace

void collate(std::span<const PreferenceExample> examples, const Truncation& truncation,
             PreferenceBatch& out) {
  clear(out.rows);
  out.margin.clear();
  out.ref_chosen_logps.clear();
  out.ref_rejected_logps.clear();
  for (const auto side : {&PreferenceExample::chosen_ids, &PreferenceExample::rejected_ids}) {
    for (const PreferenceExample& example : examples) {
      add_row(out.rows, example.prompt_ids, example.*side, truncation, example.source_row);
    }
  }
  for (const PreferenceExample& example : examples) {
    if (example.margin) out.margin.push_back(*example.margin);
    if (!example.ref_chosen_logps) continue;
    out.ref_chosen_logps.push_back(*example.ref_chosen_logps);
    out.ref_rejected_logps.push_back(*example.ref_rejected_logps);
  }
}

void collate(std::span<const UnpairedExample> examples, std::span<const std::vector<int32_t>> kl_completions,
             const Truncation& truncation, UnpairedBatch& out) {
  clear(out.rows);
  clear(out.kl);
  out.label.clear();
  for (const UnpairedExample& example : examples) {
    add_row(out.rows, example.prompt_ids, example.completion_ids, truncation, example.source_row);
    out.label.push_back(example.label ? 1 : 0);
  }
  for (size_t i = 0; i < kl_completions.size(); ++i) {
    add_row(out.kl, examples[i].prompt_ids, kl_completions[i], truncation, examples[i].source_row);
  }
}

std::vector<std::vector<int32_t>> kl_completions(const ExampleList<UnpairedExample>& list,
                                                 std::span<const int64_t> indices, int64_t group) {
  std::vector<std::vector<int32_t>> out;
  for (const int64_t index : indices) {
    const int64_t first = index / group * group;
    out.push_back(list[index > first ? index - 1 : std::min(first + group, list.size()) - 1].completion_ids);
  }
  return out;
}

std::vector<uint8_t> completion_mask(std::span<const int32_t> labels) {
  std::vector<uint8_t> mask(labels.size());
  std::transform(labels.begin(), labels.end(), mask.begin(),
                 [](int32_t label) -> uint8_t { return label == kIgnored ? 0 : 1; });
  return mask;
}

}  // namespace trl::data
