// Batches for the engine.
#include "run/rows/batch_source.h"

#include <new>

#include "base/error.h"

namespace trl::run {
namespace {

// Catches this side's exceptions: the engine gets a status and a message.
template <class Body>
int32_t answer_engine(engine::ErrorSink& error, Body&& body) noexcept {
  try {
    return static_cast<int32_t>(body());
  } catch (const Error& e) {
    error.set(static_cast<int32_t>(e.status()), e.message(), e.key(), e.callback_code());
    return static_cast<int32_t>(e.status());
  } catch (const std::bad_alloc&) {
    error.set(static_cast<int32_t>(Status::out_of_memory), "out of memory", {}, 0);
    return static_cast<int32_t>(Status::out_of_memory);
  } catch (const std::exception& e) {
    error.set(static_cast<int32_t>(Status::internal), e.what(), {}, 0);
    return static_cast<int32_t>(Status::internal);
  }
}

}  // namespace

void Batches::settle() {
  batches_per_epoch_ = stream_->batches_per_epoch();
  rows_ = stream_->rows();
  fingerprint_ = stream_->fingerprint();
}

int32_t Batches::start_epoch(int64_t epoch, int64_t skip, std::span<const int64_t> evaluations_before,
                             engine::ErrorSink& error) noexcept {
  return answer_engine(error, [&] {
    stream_->start_epoch(epoch, skip, evaluations_before);
    return Status::ok;
  });
}

int32_t Batches::start_pass(int64_t batch_size, engine::ErrorSink& error) noexcept {
  return answer_engine(error, [&] {
    stream_->start_pass(batch_size);
    return Status::ok;
  });
}

int32_t Batches::next(engine::Batch* batch, engine::ErrorSink& error) noexcept {
  return answer_engine(error, [&] {
    if (!stream_->next(host_)) return Status::end;
    batch->input_ids = host_.input_ids.data();
    batch->labels = host_.labels.data();
    batch->position_ids = host_.position_ids.data();
    batch->cu_seqlens = host_.cu_seqlens.data();
    batch->row_ids = host_.row_ids.data();
    batch->tokens = static_cast<int64_t>(host_.input_ids.size());
    batch->documents = static_cast<int64_t>(host_.cu_seqlens.size()) - 1;
    batch->row_id_count = static_cast<int64_t>(host_.row_ids.size());
    batch->rows = host_.rows;
    batch->width = host_.width;
    batch->elements = host_.elements;
    batch->max_length = host_.max_length;
    batch->counted_tokens = host_.counted_tokens;
    batch->real_tokens = host_.real_tokens;
    batch->parents = host_.parents.empty() ? nullptr : host_.parents.data();
    batch->sequences = host_.sequences;
    columns_.clear();
    for (const auto& [name, values] : host_.columns) columns_.push_back({name, values});
    batch->columns = columns_;
    const BatchSize size = {batch->row_id_count, batch->max_length};
    if (size.tokens() > largest_.tokens()) largest_ = size;
    return Status::ok;
  });
}

}  // namespace trl::run
