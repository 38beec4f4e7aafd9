// A source that gives the same batch again and again.
#pragma once
#include <span>
#include <utility>
#include <vector>

#include "engine/batch_source.h"
#include "engine/host.h"

namespace trl::bench {

class OneBatch final : public engine::BatchSource {
 public:
  // A row's ids, of which those with a label are learned; each row has a segment of its own.
  void add_row(std::span<const int32_t> ids, std::span<const int32_t> labels) {
    if (batch_.cu_seqlens.empty()) batch_.cu_seqlens.push_back(0);
    batch_.input_ids.insert(batch_.input_ids.end(), ids.begin(), ids.end());
    batch_.labels.insert(batch_.labels.end(), labels.begin(), labels.end());
    for (size_t i = 0; i < ids.size(); ++i) batch_.position_ids.push_back(static_cast<int32_t>(i));
    batch_.cu_seqlens.push_back(static_cast<int32_t>(batch_.input_ids.size()));
    batch_.row_ids.push_back(batch_.rows++);
    batch_.width = std::max(batch_.width, std::ssize(ids));
    batch_.input_numel = batch_.num_tokens = batch_.non_padding_tokens = batch_.tokens();
  }
  int64_t batches_per_epoch() noexcept override { return 1 << 20; }
  int64_t rows() noexcept override { return -1; }
  int32_t start_epoch(int64_t, int64_t, std::span<const int64_t>, engine::ErrorSink&) noexcept override {
    return 0;
  }
  int32_t start_pass(int64_t, engine::ErrorSink&) noexcept override { return 0; }
  int32_t next(const data::Batch** out, engine::ErrorSink&) noexcept override {
    *out = &batch_;
    return 0;
  }

 private:
  data::Batch batch_;
};

}  // namespace trl::bench
