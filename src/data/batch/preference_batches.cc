#include "data/batch/preference_batches.h"

#include <algorithm>

#include "data/batch/ordered_batches.h"

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
  for (Ids* values : {&row.input_ids, &row.labels})
    if (truncation.keep_end)
      values->erase(values->begin(), values->begin() + (length - kept));
    else
      values->resize(static_cast<size_t>(kept));
  row.seq_lengths = {static_cast<int32_t>(kept)};
  row.source_rows = {source_row};
  return row;
}

void collate_pairs(const std::vector<PreferenceExample>& pairs, const BatchLayout& layout,
                   const Truncation& truncation, Batch& out) {
  const PreferenceBatch batch = preference_batch(pairs, truncation);
  collate(batch.rows, layout, out);
  out.row_ids.resize(pairs.size());  // the first half's; those of the second are equal
  if (batch.margin.empty()) return;
  std::vector<float> margins = batch.margin;
  margins.insert(margins.end(), batch.margin.begin(), batch.margin.end());
  out.columns.emplace("margin", std::move(margins));
}

template <class Length>
std::vector<uint32_t> lengths_of(int64_t rows, const Length& length) {
  std::vector<uint32_t> out;
  for (int64_t row = 0; row < rows; ++row) out.push_back(static_cast<uint32_t>(length(row)));
  return out;
}

class PairBatches final : public OrderedBatches {
 public:
  PairBatches(std::unique_ptr<PreferenceList> pairs, const OrderOptions& order, const BatchLayout& layout,
              const Truncation& truncation)
      : OrderedBatches(order, pairs->rows()),
        pairs_(std::move(pairs)),
        layout_(layout),
        truncation_(truncation) {}

 private:
  std::vector<uint32_t> lengths() const override {
    return lengths_of(pairs_->size(), [this](int64_t row) { return length(row); });
  }
  std::optional<LongRow> longer(int64_t row, int64_t) const override {
    return LongRow{{(*pairs_)[row].source_row}, length(row)};
  }
  int64_t length(int64_t row) const {
    const PreferenceExample pair = (*pairs_)[row];
    const size_t longest = std::max(pair.chosen_ids.size(), pair.rejected_ids.size());
    const auto length = static_cast<int64_t>(pair.prompt_ids.size() + longest);
    return std::min(length, truncation_.max_length.value_or(length));
  }

  std::vector<int32_t> beginning(int64_t row) const override {
    PreferenceExample pair = (*pairs_)[row];
    const auto same = std::mismatch(pair.chosen_ids.begin(), pair.chosen_ids.end(), pair.rejected_ids.begin(),
                                    pair.rejected_ids.end());
    pair.prompt_ids.insert(pair.prompt_ids.end(), pair.chosen_ids.begin(), same.first);
    return std::move(pair.prompt_ids);
  }

  void make(std::span<const int64_t> rows, Batch& out) const override {
    collate_pairs(pairs_->gather(rows), layout_, truncation_, out);
  }

  const std::unique_ptr<PreferenceList> pairs_;
  const BatchLayout layout_;
  const Truncation truncation_;
};

// others: the completions of other rows, or empty.
void collate_unpaired(const std::vector<UnpairedExample>& examples,
                      const std::vector<std::vector<int32_t>>& others, const BatchLayout& layout,
                      const Truncation& truncation, Batch& out) {
  UnpairedBatch batch = unpaired_batch(examples, others, truncation);
  Batch counted;
  collate(batch.rows, layout, counted);
  batch.rows.insert(batch.rows.end(), batch.kl.begin(), batch.kl.end());
  collate(batch.rows, layout, out);
  static_cast<BatchRows&>(out) = std::move(counted);
  std::vector<float> labels(batch.label.begin(), batch.label.end());
  if (!others.empty()) labels.insert(labels.end(), batch.label.begin(), batch.label.end());
  out.columns.emplace("label", std::move(labels));
}

class UnpairedBatches final : public OrderedBatches {
 public:
  UnpairedBatches(std::unique_ptr<UnpairedList> list, const OrderOptions& order, const BatchLayout& layout,
                  const Truncation& truncation, int64_t group)
      : OrderedBatches(order, list->rows()),
        list_(std::move(list)),
        layout_(layout),
        truncation_(truncation),
        group_(group) {}

 private:
  std::vector<std::vector<int32_t>> others(std::span<const int64_t> rows) const {
    if (group_ == 0) return {};
    return kl_completions(*list_, rows, group_);
  }

  std::vector<uint32_t> lengths() const override {
    return lengths_of(list_->size(), [this](int64_t row) { return length(row); });
  }
  std::optional<LongRow> longer(int64_t row, int64_t) const override {
    return LongRow{{(*list_)[row].source_row}, length(row)};
  }
  int64_t length(int64_t row) const {
    const UnpairedExample example = (*list_)[row];
    size_t longest = example.completion_ids.size();
    for (const std::vector<int32_t>& other : others({&row, 1})) longest = std::max(longest, other.size());
    const auto length = static_cast<int64_t>(example.prompt_ids.size() + longest);
    return std::min(length, truncation_.max_length.value_or(length));
  }

  std::vector<int32_t> beginning(int64_t row) const override { return (*list_)[row].prompt_ids; }

  void make(std::span<const int64_t> rows, Batch& out) const override {
    collate_unpaired(list_->gather(rows), others(rows), layout_, truncation_, out);
  }

  const std::unique_ptr<UnpairedList> list_;
  const BatchLayout layout_;
  const Truncation truncation_;
  const int64_t group_;
};

}  // namespace

PreferenceBatch preference_batch(std::span<const PreferenceExample> examples, const Truncation& truncation) {
  PreferenceBatch out;
  for (const auto side : {&PreferenceExample::chosen_ids, &PreferenceExample::rejected_ids})
    for (const PreferenceExample& example : examples)
      out.rows.push_back(joined(example.prompt_ids, example.*side, truncation, example.source_row));
  for (const PreferenceExample& example : examples)
    if (example.margin) out.margin.push_back(*example.margin);
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

std::unique_ptr<BatchStream> batches_of_pairs(std::unique_ptr<PreferenceList> pairs,
                                              const OrderOptions& order, const BatchLayout& layout,
                                              const Truncation& truncation) {
  return std::make_unique<PairBatches>(std::move(pairs), order, layout, truncation);
}

StreamedRows streamed_pairs(decltype(dpo_kind)& kind, const BatchLayout& layout,
                            const Truncation& truncation) {
  return {&kind, [layout, truncation](const std::vector<std::string>& records, Batch& out) {
            std::vector<PreferenceExample> pairs;
            for (const std::string& record : records) pairs.push_back(example_of<PreferenceExample>(record));
            collate_pairs(pairs, layout, truncation, out);
          }};
}

std::unique_ptr<BatchStream> batches_of_unpaired(std::unique_ptr<UnpairedList> list,
                                                 const OrderOptions& order, const BatchLayout& layout,
                                                 const Truncation& truncation, int64_t group) {
  return std::make_unique<UnpairedBatches>(std::move(list), order, layout, truncation, group);
}

StreamedRows streamed_unpaired(const BatchLayout& layout, const Truncation& truncation, bool kl) {
  return {kto_kind, [layout, truncation, kl](const std::vector<std::string>& records, Batch& out) {
            std::vector<UnpairedExample> examples;
            for (const std::string& record : records) examples.push_back(example_of<UnpairedExample>(record));
            std::vector<std::vector<int32_t>> others;
            for (size_t i = 0; kl && i < examples.size(); ++i)
              others.push_back(examples[i > 0 ? i - 1 : examples.size() - 1].completion_ids);
            collate_unpaired(examples, others, layout, truncation, out);
          }};
}

}  // namespace trl::data
