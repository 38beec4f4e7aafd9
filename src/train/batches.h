// Reads a BatchSource: errors become exceptions, and the position survives them.
#pragma once
#include <vector>

#include "engine/error_capture.h"
#include "train/micro_batch.h"
#include "train/sharing.h"

namespace trl::train {

// Copies a batch. share: the limits within which its rows share beginnings (sharing.h); none: they share
// nothing.
MicroBatch copied(const engine::Batch& batch, int64_t vocab_size,
                  const std::optional<data::TreeLimits>& share);

// The micro-batches of training, epoch after epoch. A window (the micro-batches of one optimizer step) stays
// until its step is done, so that a step that failed repeats it.
class Batches {
 public:
  Batches(engine::BatchSource& source, int64_t vocab_size,
          const std::optional<data::TreeLimits>& share = std::nullopt)
      : source_(source), vocab_size_(vocab_size), share_(share) {}

  // Fills the window up to `count` micro-batches; fewer: the epoch ended. An error keeps the batches read so
  // far.
  const std::vector<MicroBatch>& fill_window(int64_t count);
  void window_done();
  void next_epoch();
  // Counts passes over evaluation rows: all so far, and those before the beginning of each epoch.
  struct Evaluations {
    int64_t done = 0;
    std::vector<int64_t> before;
  };
  const Evaluations& evaluations() const { return evaluations_; }
  void set_evaluations(Evaluations evaluations) { evaluations_ = std::move(evaluations); }
  void count_evaluation() { ++evaluations_.done; }
  void go_to(int64_t epoch, int64_t done);  // the next window begins after `done` micro-batches of `epoch`
  int64_t epoch() const { return epoch_; }
  int64_t done_in_epoch() const { return done_; }  // micro-batches that were trained on

 private:
  engine::BatchSource& source_;
  const int64_t vocab_size_;
  const std::optional<data::TreeLimits> share_;
  Evaluations evaluations_;
  int64_t epoch_ = 0;
  int64_t done_ = 0;
  bool positioned_ = false;  // the source is just after the window's last batch
  bool ended_ = false;       // the source has no more batches in this epoch
  std::vector<MicroBatch> window_;
};

}  // namespace trl::train
