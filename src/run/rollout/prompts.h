// The prompts of a run that writes completions: rows of the dataset in TRL's order, a generation at a time.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/json/json.h"
#include "config/online/online_arguments.h"
#include "data/prepare/preference.h"
#include "engine/rollout.h"
#include "run/rollout/prompt_order.h"

namespace trl::run {

class Prompts {
 public:
  // others: the order of prompts that are drawn in place of others, a prompt at a time; null: none is.
  Prompts(std::unique_ptr<data::PromptList> list, std::unique_ptr<PromptOrder> order,
          std::unique_ptr<PromptOrder> others);
  int64_t count() { return list_->size(); }  // waits until it is known, as the next two
  int64_t generations();
  void settle();
  uint64_t fingerprint() const { return list_->rows().fingerprint(); }
  int64_t longest();  // tokens of the longest prompt; waits for all
  data::PromptExample prompt(int64_t row) const { return (*list_)[row]; }
  void tell() { list_->rows().tell(); }  // at the end of the run
  void start(int64_t epoch, int64_t generation);
  // Counts the completions of `generations` generations, from generation `first` of the epoch on.
  int64_t completions(int64_t first, int64_t generations);
  int64_t next_generation() const { return generation_; }  // of the epoch
  bool next();  // reads the next generation; false: the epoch is over
  // Gives rows of it, which are whole groups of that size, the next other prompts.
  void redraw(std::span<const size_t> rows, size_t group);
  // Gives rows of it the prompt of this row of the dataset. false: that row is not a prompt.
  bool give(std::span<const size_t> rows, int64_t source_row);
  int64_t redrawn() const { return redrawn_; }  // prompts, since the run began
  void set_redrawn(int64_t prompts) { redrawn_ = prompts; }

  const engine::PromptRows& rows() const { return rows_; }
  // The completions that the rows have themselves; empty ones: they have none.
  const std::vector<std::vector<int32_t>>& answers() const { return answers_; }
  // The row of each completion as JSON, with all its columns; equal ones are shared.
  const std::vector<std::shared_ptr<const base::Json>>& columns() const { return columns_; }

 private:
  void give(std::span<const size_t> rows, const data::PromptExample& prompt);

  const std::unique_ptr<data::PromptList> list_;
  const std::unique_ptr<PromptOrder> order_, others_;
  bool settled_ = false;
  int64_t generation_ = 0, redrawn_ = 0;
  engine::PromptRows rows_;
  std::vector<std::vector<int32_t>> answers_;
  std::vector<std::shared_ptr<const base::Json>> columns_;
};

// Throws Error(invalid_config) for fewer prompts than a generation takes. Waits for all of them.
void need_generation(Prompts& prompts, const config::OnlineArguments& online);

}  // namespace trl::run
