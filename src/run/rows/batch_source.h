// The batch source that the engine reads from.
#pragma once
#include <memory>

#include "config/config.h"
#include "data/batch/batch_stream.h"
#include "engine/batch_source.h"
#include "engine/host.h"

namespace trl::run {

// The rows of a micro-batch, and the tokens of its longest row.
struct BatchSize {
  int64_t rows = 0, longest = 0;
  int64_t tokens() const { return rows * longest; }
};

class Batches final : public engine::BatchSource {
 public:
  explicit Batches(std::unique_ptr<data::BatchStream> stream) : stream_(std::move(stream)) {}
  void settle();  // waits until the number of batches is known; call before any other function. Throws.
  int64_t longest_row() { return stream_->longest_row(); }  // waits for all rows; -1: not known (streaming)
  std::optional<data::LongRow> longer_than(int64_t tokens) { return stream_->longer_than(tokens); }
  void tell() { stream_->tell(); }                       // at the end of the run
  const BatchSize& largest() const { return largest_; }  // of the batches that were read
  int64_t batches_per_epoch() noexcept override { return batches_per_epoch_; }
  int64_t rows() noexcept override { return rows_; }
  uint64_t fingerprint() noexcept override { return fingerprint_; }
  int32_t start_epoch(int64_t epoch, int64_t skip, std::span<const int64_t> evaluations_before,
                      engine::ErrorSink& error) noexcept override;
  int32_t start_pass(int64_t batch_size, engine::ErrorSink& error) noexcept override;
  int32_t next(const data::Batch** batch, engine::ErrorSink& error) noexcept override;

 private:
  const std::unique_ptr<data::BatchStream> stream_;
  data::Batch batch_;
  BatchSize largest_;
  int64_t batches_per_epoch_ = 0;
  int64_t rows_ = 0;
  uint64_t fingerprint_ = 0;
};

// Checks that the rows of a run, or of an evaluation, fit the positions that a model has learned. positions:
// engine::Model::learned_positions(). Throws Error(invalid_config) with the key max_length and the first row
// that is longer. Reads rows, waiting for all of them, only if max_length leaves longer ones. evaluation:
// nullable.
void check_positions(const config::Config& config, int64_t positions, Batches& rows, Batches* evaluation);

}  // namespace trl::run
