#include "train/batches.h"

namespace trl::train {

MicroBatch copied(const engine::Batch& batch, int64_t vocab_size,
                  const std::optional<data::TreeLimits>& share) {
  if (!share) return copy_batch(batch, vocab_size);
  const SharedBatch shared(batch, *share);
  MicroBatch own = copy_batch(shared.batch(), vocab_size);
  own.shared_tokens = shared.saved();
  return own;
}

const std::vector<MicroBatch>& Batches::fill_window(int64_t count) {
  engine::ErrorCapture error;
  if (!positioned_) {
    evaluations_.before.resize(std::max(evaluations_.before.size(), static_cast<size_t>(epoch_) + 1),
                               evaluations_.done);
    const auto before = std::span(evaluations_.before).first(static_cast<size_t>(epoch_) + 1);
    error.check(source_.start_epoch(epoch_, done_ + static_cast<int64_t>(window_.size()), before, error));
    positioned_ = true;
    ended_ = false;
  }
  while (!ended_ && static_cast<int64_t>(window_.size()) < count) {
    positioned_ = false;  // unless this batch arrives
    engine::Batch batch;
    if (error.check(source_.next(&batch, error))) {
      window_.push_back(copied(batch, vocab_size_, share_));
    } else {
      ended_ = true;
    }
    positioned_ = true;
  }
  return window_;
}

void Batches::window_done() {
  done_ += static_cast<int64_t>(window_.size());
  window_.clear();
}

void Batches::next_epoch() { go_to(epoch_ + 1, 0); }

void Batches::go_to(int64_t epoch, int64_t done) {
  epoch_ = epoch;
  done_ = done;
  positioned_ = false;
  window_.clear();
}

}  // namespace trl::train
