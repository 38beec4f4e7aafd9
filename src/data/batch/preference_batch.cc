// See preference_batch.h.
#include "data/batch/preference_batch.h"

#include <algorithm>

namespace trl::data {

namespace {

using Ids = std::vector<int32_t>;

Example joined(const Ids& prompt, const Ids& completion, const Truncation& truncation, int64_t source_row) {
  Example row;
  row.input_ids = prompt;
  row.input_ids.insert(row.input_ids.end(), completion.begin(), completion.end());
  row.labels.assign(prompt.size(), kIgnored);
  row.labels.insert(row.labels.end(), completion.begin(), completion.end());
  const auto length = static_cast<int64_t>(row.input_ids.size());
  const int64_t kept = std::min(length, truncation.max_length.value_or(length));
  for (Ids* values : {&row.input_ids, &row.labels}) {
    if (truncation.keep_end) {
      values->erase(values->begin(), values->begin() + (length - kept));
    } else {
      values->resize(static_cast<size_t>(kept));
    }
  }
  row.seq_lengths = {static_cast<int32_t>(kept)};
  row.source_rows = {source_row};
  return row;
}

}  // namespace

PreferenceBatch preference_batch(std::span<const PreferenceExample> examples, const Truncation& truncation) {
  PreferenceBatch out;
  for (const auto side : {&PreferenceExample::chosen_ids, &PreferenceExample::rejected_ids}) {
    for (const PreferenceExample& example : examples)
      out.rows.push_back(joined(example.prompt_ids, example.*side, truncation, example.source_row));
  }
  for (const PreferenceExample& example : examples) {
    if (example.margin) out.margin.push_back(*example.margin);
  }
  return out;
}

UnpairedBatch unpaired_batch(std::span<const UnpairedExample> examples,
                             std::span<const std::vector<int32_t>> kl_completions,
                             const Truncation& truncation) {
  UnpairedBatch out;
  for (const UnpairedExample& example : examples) {
    out.rows.push_back(joined(example.prompt_ids, example.completion_ids, truncation, example.source_row));
    out.label.push_back(example.label ? 1 : 0);
  }
  for (size_t i = 0; i < kl_completions.size(); ++i)
    out.kl.push_back(joined(examples[i].prompt_ids, kl_completions[i], truncation, examples[i].source_row));
  return out;
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
