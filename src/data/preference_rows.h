// One row -> the token ids of preference, unpaired and prompt-only examples, by TRL's rules for DPO, Reward,
// KTO and GRPO (_prepare_dataset of each trainer). What holds for the whole dataset is decided on its first
// row; every other row must have the same columns of the same kind.
#pragma once
#include <cstdint>
#include <vector>

#include "data/preference_examples.h"
#include "data/row_reader.h"

namespace trl::data {

class DpoRows {
 public:
  DpoRows(RowReader reader, const Row& first);
  // any thread. Changes the row, as those below do.
  void examples(Row& row, std::vector<Made<PreferenceExample>>& out) const;

 private:
  RowReader reader_;
  bool implicit_ = false;
  bool reference_ = false;  // ref_chosen_logps and ref_rejected_logps are there
};

class RewardRows {
 public:
  RewardRows(RowReader reader, const Row& first, int64_t vocab_size);
  void examples(Row& row, std::vector<Made<PreferenceExample>>& out) const;
  bool renamed() const { return renamed_; }  // the ids' columns had their older names

 private:
  RowReader reader_;
  int64_t vocab_size_;
  bool renamed_ = false, tokenized_ = false, explicit_ = false, margin_ = false;
};

class KtoRows {
 public:
  KtoRows(RowReader reader, const Row& first);
  // A paired row is two: the chosen one and the rejected one.
  void examples(Row& row, std::vector<Made<UnpairedExample>>& out) const;

 private:
  Made<UnpairedExample> example(const Row& row) const;
  RowReader reader_;
  bool paired_ = false, implicit_ = false;
};

class PromptRows {
 public:
  PromptRows(RowReader reader, const Row& first);
  void examples(Row& row, std::vector<Made<PromptExample>>& out) const;

 private:
  RowReader reader_;
};

}  // namespace trl::data
