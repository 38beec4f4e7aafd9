// The batch source that the engine pulls from: prepared rows, laid out batch by batch.
#pragma once
#include <memory>

#include "data/sft.h"
#include "engine/engine.h"

namespace trl::capi {

class Batches final : public engine::BatchSource {
 public:
  Batches(std::unique_ptr<data::Examples> examples, const data::OrderOptions& options);
  int64_t batches_per_epoch() noexcept override { return stream_.batches_per_epoch(); }
  int64_t rows() noexcept override { return examples_->size(); }
  uint64_t fingerprint() noexcept override;
  int32_t start_epoch(int64_t epoch, int64_t skip, engine::ErrorSink& error) noexcept override;
  int32_t next(engine::Batch* batch, engine::ErrorSink& error) noexcept override;

 private:
  const std::unique_ptr<data::Examples> examples_;
  data::BatchStream stream_;
  data::HostBatch host_;
  uint64_t fingerprint_ = 0;  // 0: not computed yet
};

}  // namespace trl::capi
