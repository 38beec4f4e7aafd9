// Micro-batches of DPO, Reward and KTO: the rows one behind the other (data/sft.h, HostBatch, which pad()
// lays out as TRL's collators do), with what stands beside them.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/preference_examples.h"
#include "data/sft.h"

namespace trl::data {

struct Truncation {
  std::optional<int64_t> max_length;
  bool keep_end = false;  // of prompt and completion together; TRL's KTO always keeps the start
};

// 2B rows: all that were chosen, then all that were rejected. labels: the completion's ids (Reward: the whole
// row's), else kIgnored.
struct PreferenceBatch {
  HostBatch rows;
  std::vector<float> margin;                                // B, or none
  std::vector<float> ref_chosen_logps, ref_rejected_logps;  // B, or none
};
void collate(std::span<const PreferenceExample> examples, const Truncation& truncation, PreferenceBatch& out);

struct UnpairedBatch {
  HostBatch rows;
  HostBatch kl;  // each prompt with the completion of another row; no rows where none is asked for
  std::vector<uint8_t> label;
};
// kl_completions: one for each example, or none at all (loss_type apo_zero_unpaired).
void collate(std::span<const UnpairedExample> examples, std::span<const std::vector<int32_t>> kl_completions,
             const Truncation& truncation, UnpairedBatch& out);

// For each of these examples the completion of the one before it in its group of `group`
// (per_device_train_batch_size) consecutive ones, for the first that of the last; the last group may be
// short.
std::vector<std::vector<int32_t>> kl_completions(const ExampleList<UnpairedExample>& list,
                                                 std::span<const int64_t> indices, int64_t group);

std::vector<uint8_t> completion_mask(std::span<const int32_t> labels);  // of either layout

}  // namespace trl::data
