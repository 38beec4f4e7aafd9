// The batches of a rehearsal.
#pragma once
#include <algorithm>
#include <span>
#include <vector>

#include "base/error.h"
#include "config/training_arguments.h"
#include "engine/batch_source.h"
#include "engine/host.h"
#include "engine/plan.h"
#include "model/model.h"

namespace trl::entry {

// Equal batches: rows of given lengths, every token of which has a loss. Of a method that writes completions,
// only those of the completions have one, and they have the columns of a rollout.
class SameBatch final : public engine::BatchSource {
 public:
  static constexpr int64_t kMany = int64_t{1} << 40;
  explicit SameBatch(std::span<const int64_t> lengths, const config::TrainingArguments& arguments,
                     int64_t batches = kMany)
      : batches_(batches), rollouts_(arguments.method->generates), targets_(targets_of(arguments)) {
    batch_.cu_seqlens.push_back(0);
    for (const int64_t length : lengths) add_row(length);
  }
  void add_row(int64_t length) {
    for (int64_t i = 0; i < length; ++i) batch_.position_ids.push_back(static_cast<int32_t>(i));
    batch_.cu_seqlens.push_back(static_cast<int32_t>(batch_.position_ids.size()));
    batch_.width = std::max(batch_.width, length);
    batch_.row_ids.push_back(batch_.rows++);
    batch_.num_tokens = batch_.non_padding_tokens = std::ssize(batch_.position_ids);
    batch_.input_ids.resize(batch_.position_ids.size(), 0);
    const auto targets = static_cast<size_t>(std::min(length, targets_));
    batch_.labels.resize(batch_.position_ids.size() - targets, -100);  // of a prompt
    batch_.labels.resize(batch_.position_ids.size(), 0);
    batch_.input_numel = batch_.width * batch_.rows;
    if (!rollouts_) return;
    for (const char* column : {"advantages", "rewards", "scored", "ended", "epoch", "width"})
      batch_.columns[column].resize(batch_.row_ids.size(), 1.0f);
    batch_.items = batch_.num_tokens;
    for (const std::string_view column :
         {std::string_view("old"), std::string_view("reference"), std::string_view("sampling"),
          std::string_view("importance"), std::string_view("advantages"), data::kPadding})
      batch_.token_columns[std::string(column)].resize(batch_.labels.size(), 0.0f);
    for (const char* column : {"entropy", "value", "return"})
      batch_.states[column].resize(batch_.labels.size(), 1.0f);
  }
  // The rows of an update become trees, which have so many tokens more than a micro-batch: nearly all of
  // their tokens are of completions.
  void join(int64_t more) {
    if (more > 0) add_row(more);
    std::ranges::fill(batch_.labels, 0);
  }
  int64_t batches_per_epoch() noexcept override { return batches_; }
  int64_t rows() noexcept override { return batch_.rows; }
  int32_t start_epoch(int64_t, int64_t, std::span<const int64_t>, engine::ErrorSink&) noexcept override {
    done_ = 0;
    return 0;
  }
  int32_t start_pass(int64_t, engine::ErrorSink&) noexcept override {
    done_ = 0;
    return 0;
  }
  int32_t next(const data::Batch** batch, engine::ErrorSink&) noexcept override {
    if (done_++ >= batches_) return static_cast<int32_t>(Status::end);
    *batch = &batch_;
    return 0;
  }

 private:
  // Returns the most tokens of a row that have a loss.
  static int64_t targets_of(const config::TrainingArguments& arguments) {
    const bool all = !arguments.method->generates || arguments.method->answers_of_rows;
    return all ? kMany : arguments.online.longest_completion();
  }

  data::Batch batch_;
  int64_t done_ = 0;
  const int64_t batches_;
  const bool rollouts_;
  const int64_t targets_;  // the most of a row
};

// Returns the lengths of the sequences of rows of these lengths.
inline std::vector<int64_t> sequences_of(std::span<const int64_t> rows,
                                         const config::TrainingArguments& arguments) {
  std::vector<int64_t> sequences;
  for (int64_t i = 0; i < config::sequences_per_row(arguments); ++i)
    sequences.insert(sequences.end(), rows.begin(), rows.end());
  return sequences;
}

// Returns the tokens of each row of a micro-batch of the model. Rows that max_length allows are no longer
// than the positions that the model has learned; in a packed row this holds for its documents.
inline std::vector<int64_t> lengths_of(const engine::PlanSpec& spec, const model::Model& model, bool packed) {
  const int64_t most = model.config().learned_positions();
  if (most == 0 || !spec.longest_allowed) return {spec.lengths.begin(), spec.lengths.end()};
  std::vector<int64_t> lengths;
  for (const int64_t length : spec.lengths) {
    lengths.push_back(std::min(length, most));
    for (int64_t left = length - most; packed && left > 0; left -= most)
      lengths.push_back(std::min(left, most));
  }
  return lengths;
}

}  // namespace trl::entry
