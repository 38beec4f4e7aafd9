// The batches of a run's first epoch, as JSON.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "base/json/json.h"
#include "base/log.h"
#include "config/data_arguments.h"
#include "data/prepare/sft_tokens.h"
#include "engine/error_capture.h"
#include "run/rows/prepare.h"
#include "run/rows/rows.h"
#include "run/tokenizer.h"

namespace trl::run {

// Counts the tokens of rows before they are cut. A wrapped pack begins anywhere in its rows, and a host's
// rows and streamed rows are not read again.
class WholeRows {
 public:
  WholeRows(const Rows& dataset, const config::Config& config, const text::Tokenizer& tokenizer);
  // Returns the lengths of these rows; null: not known.
  base::Json lengths(const base::Json& rows) const;

 private:
  config::DataArguments arguments_;
  base::NullLog log_;
  std::shared_ptr<const data::Table> table_;
  std::optional<data::SftTokens> rows_;
};

class Epoch {
 public:
  Epoch(const Rows& dataset, const Tokenizer& tokenizer, const config::Config& given);
  bool next();
  void find(int64_t number);  // moves to the batch with this number, from 0
  base::Json describe() const;

 private:
  const config::Config config_;
  const std::unique_ptr<text::Tokenizer> tokenizer_;
  const Prepared prepared_;
  const WholeRows whole_;
  engine::ErrorCapture error_;
  engine::Batch batch_;
  int64_t number_ = -1;
};

}  // namespace trl::run
