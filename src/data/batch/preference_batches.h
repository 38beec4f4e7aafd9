// Makes micro-batches of DPO, Reward and KTO as TRL's collators do.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "data/batch/batch_stream.h"
#include "data/prepare/example.h"
#include "data/prepare/preference.h"
#include "data/prepare/preference_examples.h"

namespace trl::data {

struct Truncation {
  std::optional<int64_t> max_length;
  bool keep_end = false;  // truncates prompt and completion together; TRL's KTO always keeps the start
};

// 2B rows: all chosen ones, then all rejected ones. labels: the completion's ids (Reward: the whole row's),
// else kIgnored.
struct PreferenceBatch {
  std::vector<Example> rows;
  std::vector<float> margin;  // B, or empty
};
PreferenceBatch preference_batch(std::span<const PreferenceExample> examples, const Truncation& truncation);

struct UnpairedBatch {
  std::vector<Example> rows;
  std::vector<Example> kl;  // each prompt with the completion of another row, or empty
  std::vector<uint8_t> label;
};
// kl_completions: one for each example, or empty (loss_type apo_zero_unpaired).
UnpairedBatch unpaired_batch(std::span<const UnpairedExample> examples,
                             std::span<const std::vector<int32_t>> kl_completions,
                             const Truncation& truncation);

// Returns for each of these examples the completion of the previous one in its group of `group`
// (per_device_train_batch_size) consecutive examples, and for the first of a group that of the last; the last
// group may be short.
std::vector<std::vector<int32_t>> kl_completions(const ExampleList<UnpairedExample>& list,
                                                 std::span<const int64_t> indices, int64_t group);

// A batch of n rows has 2n sequences: all chosen ones, then all rejected ones. If the pairs have a margin,
// the column `margin` has it for both sequences of a pair.
std::unique_ptr<BatchStream> batches_of_pairs(std::unique_ptr<PreferenceList> pairs,
                                              const OrderOptions& order, const BatchLayout& layout,
                                              const Truncation& truncation);
// kind: dpo_kind or reward_kind.
StreamedRows streamed_pairs(decltype(dpo_kind)& kind, const BatchLayout& layout,
                            const Truncation& truncation);

// A batch of n rows has 2n sequences: the completions, then each row's prompt with the completion of another
// row of its group of `group` consecutive rows (kl_completions). group 0: n sequences, only the completions.
// Column `label`, for all of them: 1 if the row's completion is desirable, else 0. Counts of rows and tokens
// are those of the first n, as in TRL.
std::unique_ptr<BatchStream> batches_of_unpaired(std::unique_ptr<UnpairedList> list,
                                                 const OrderOptions& order, const BatchLayout& layout,
                                                 const Truncation& truncation, int64_t group);
// The rows of a batch form a group; without kl there are no groups.
StreamedRows streamed_unpaired(const BatchLayout& layout, const Truncation& truncation, bool kl);

}  // namespace trl::data
