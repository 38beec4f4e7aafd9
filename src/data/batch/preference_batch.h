// Makes micro-batches of DPO, Reward and KTO as TRL's collators do. The same tokens and masks have two
// layouts: collate() of collate.h concatenates rows, pad() stacks them.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

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

std::vector<uint8_t> completion_mask(std::span<const int32_t> labels);  // for either layout

}  // namespace trl::data
