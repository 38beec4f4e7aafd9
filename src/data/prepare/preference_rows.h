// Turns one row into token ids of preference, unpaired and prompt-only examples, by TRL's rules for DPO,
// Reward, KTO and GRPO (_prepare_dataset of each trainer). The first row decides what holds for the whole
// dataset; every other row must have the same columns of the same kind.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/prepare/preference_examples.h"
#include "data/row/row_reader.h"

namespace trl::data {

class DpoRows {
 public:
  static constexpr std::string_view kName = "dpo";
  DpoRows(RowReader reader, const Row& first);
  // any thread. Changes the row, as the functions below do.
  void examples(Row& row, std::vector<Made<PreferenceExample>>& out) const;
  bool one_each() const { return true; }  // each row is one example
  // The first is RowKind's; the second an upper bound of the tokens that decide on dropping a row.
  size_t least_bytes_to_drop() const;
  size_t most_tokens(Row& row) const;

 private:
  void tokenize(Row& row, Made<PreferenceExample>& made) const;
  RowReader reader_;
  bool implicit_ = false, tokenized_ = false;  // tokenized_: rows of prompt_ids, chosen_ids and rejected_ids
};

class RewardRows {
 public:
  static constexpr std::string_view kName = "reward";
  RewardRows(RowReader reader, const Row& first);
  void examples(Row& row, std::vector<Made<PreferenceExample>>& out) const;
  bool one_each() const { return true; }
  size_t least_bytes_to_drop() const { return tokenized_ ? 0 : reader_.least_bytes_of_max_length(); }
  size_t most_tokens(Row& row) const;
  bool renamed() const { return renamed_; }  // the ids' columns had their earlier names

 private:
  std::array<GivenText, 2> texts(const Row& row, Events* events = nullptr) const;
  RowReader reader_;
  bool renamed_ = false, tokenized_ = false, explicit_ = false, margin_ = false;
};

class KtoRows {
 public:
  static constexpr std::string_view kName = "kto";
  KtoRows(RowReader reader, const Row& first);
  // Makes two examples of a paired row: the chosen one and the rejected one.
  void examples(Row& row, std::vector<Made<UnpairedExample>>& out) const;
  bool one_each() const { return !paired_; }
  size_t least_bytes_to_drop() const { return 0; }  // a row may be empty
  size_t most_tokens(Row& row) const;

 private:
  Made<UnpairedExample> example(const Row& row) const;
  RowReader reader_;
  bool paired_ = false, implicit_ = false, tokenized_ = false;  // tokenized_: prompt_ids, completion_ids
};

class PromptRows {
 public:
  static constexpr std::string_view kName = "prompts, with room for completions";
  PromptRows(RowReader reader, const Row& first);
  void examples(Row& row, std::vector<Made<PromptExample>>& out) const;
  bool one_each() const { return true; }
  size_t least_bytes_to_drop() const { return reader_.limits_prompts() ? 0 : SIZE_MAX; }
  size_t most_tokens(Row&) const { return reader_.limits_prompts() ? SIZE_MAX : 0; }

 private:
  RowReader reader_;
};

}  // namespace trl::data
