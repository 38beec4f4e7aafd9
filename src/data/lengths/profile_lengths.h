// Counts how long the rows of a dataset are in tokens and what each max_length would cost
// (telemetry/length_profile.h). Rows are tokenised as training tokenises them and their lengths laid out as
// its batches are; three bytes a row are kept, so that a dataset may be larger than memory.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/batch/order.h"
#include "data/prepare/sft.h"
#include "data/prepare/sft_rows.h"
#include "data/row/columns.h"
#include "telemetry/length_profile.h"

namespace trl::data {

inline constexpr size_t kMostProfileLimits = 64;

struct ProfileOptions {
  // Values of max_length; empty: the powers of two from the one at or below the median to the longest row's,
  // and `max_length` if it is above 0.
  std::vector<int64_t> max_lengths;
  int64_t max_length = 0;
  OrderOptions order;    // of the run whose batches are counted
  OrderOptions grouped;  // the same with train_sampling_strategy group_by_length
  int64_t gradient_accumulation_steps = 1;
};

// Reads the whole source once. context.arguments->max_length is not read. Throws as preparation does.
telemetry::LengthProfile profile_lengths(Source& source, const PrepareContext& context,
                                         const ProfileOptions& options);

struct RowMeasure {
  int64_t total = 0;
  int64_t trained = 0;  // tokens
  // The least max_length that leaves a trained token, from the end that truncation_mode keeps; kNever: no
  // max_length does.
  int64_t needed = 0;
  static constexpr int64_t kNever = INT64_MAX;
};

// Measures one row in tokens, with SFT's own tokenisation (sft_rows.h). A preference row has two lengths: the
// prompt with the chosen completion and with the rejected one, which DPO tokenises as SFT does prompt and
// completion.
class RowMeasurer {
 public:
  RowMeasurer(const PrepareContext& context, const Row& first);
  RowMeasurer(const RowMeasurer&) = delete;
  RowMeasurer& operator=(const RowMeasurer&) = delete;
  bool preference() const { return preference_; }
  bool has_prompt() const {
    return format_ != Format::text && format_ != Format::messages;
  }  // counts as a preference row
  std::string format() const;
  // any thread. Changes the row. The second measure is that of a preference row's rejected completion.
  std::array<RowMeasure, 2> measure(Row& row) const;

 private:
  RowMeasure measured(const Tokens& tokens) const;
  Row side(const Row& row, const char* column) const;

  const config::DataArguments& given_;
  config::DataArguments arguments_;
  PrepareContext context_;
  bool preference_ = false;
  Format format_ = Format::text;
  bool all_trained_ = false;  // completion_only_loss is false, but rows have prompt and completion
  std::optional<SftRows> rows_;
};

}  // namespace trl::data
