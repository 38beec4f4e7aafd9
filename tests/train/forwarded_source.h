// A batch source that is another one; tests derive from it what they change.
#pragma once
#include "engine/batch_source.h"
#include "engine/host.h"

namespace trl::test {

class ForwardedSource : public engine::BatchSource {
 public:
  explicit ForwardedSource(engine::BatchSource& source) : source_(source) {}
  int64_t batches_per_epoch() noexcept override { return source_.batches_per_epoch(); }
  int64_t rows() noexcept override { return source_.rows(); }
  int32_t start_epoch(int64_t epoch, int64_t skip, std::span<const int64_t> evaluations_before,
                      engine::ErrorSink& error) noexcept override {
    return source_.start_epoch(epoch, skip, evaluations_before, error);
  }
  int32_t start_pass(int64_t batch_size, engine::ErrorSink& error) noexcept override {
    return source_.start_pass(batch_size, error);
  }
  int32_t next(const data::Batch** batch, engine::ErrorSink& error) noexcept override {
    return source_.next(batch, error);
  }

 private:
  engine::BatchSource& source_;
};

}  // namespace trl::test
