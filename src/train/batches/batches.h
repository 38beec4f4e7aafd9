// Reads a BatchSource: errors become exceptions, and the position survives them.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "config/training_arguments.h"
#include "data/batch/prefix_tree.h"
#include "engine/error_capture.h"
#include "model/model.h"
#include "train/batches/micro_batch.h"
#include "train/method.h"

namespace trl::train {

// Copies a batch. share: the limits within which its rows share beginnings; none: they share nothing.
MicroBatch copied(const data::Batch& batch, int64_t vocab_size, const std::optional<data::TreeLimits>& share);

// The micro-batches of training, epoch after epoch. A window (the micro-batches of one optimizer step) stays
// until its step is done, so that a step that failed repeats it.
class Batches {
 public:
  // keeps_flat: sets MicroBatch::flat.
  Batches(engine::BatchSource& source, int64_t vocab_size,
          const std::optional<data::TreeLimits>& share = std::nullopt, bool keeps_flat = false)
      : source_(source), vocab_size_(vocab_size), share_(share), keeps_flat_(keeps_flat) {}

  // Fills the window up to `count` micro-batches; fewer: the epoch ended. An error keeps the batches read so
  // far.
  const std::vector<MicroBatch>& fill_window(int64_t count);
  const std::vector<MicroBatch>& window() const { return window_; }  // so far
  // Gives the source the state that the next window begins with.
  void settle();
  // Returns a batch as the window would have it.
  MicroBatch own(const data::Batch& batch) const;
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
  // The next window begins after `done` micro-batches of `epoch`. state: the source's there.
  void go_to(int64_t epoch, int64_t done, std::string state = {});
  int64_t epoch() const { return epoch_; }
  int64_t done_in_epoch() const { return done_; }  // micro-batches that were trained on
  // Returns the source's state at that place.
  const std::string& source_state();
  // Returns the source's state as it is now, after the window so far; settle() comes before.
  std::string present_state();
  // The source was used otherwise: before it gives the next batch, it goes back to that state.
  void return_to(std::string present);

 private:
  void position();

  engine::BatchSource& source_;
  const int64_t vocab_size_;
  const std::optional<data::TreeLimits> share_;
  const bool keeps_flat_;
  Evaluations evaluations_;
  int64_t epoch_ = 0;
  int64_t done_ = 0;
  std::string state_;                 // of the source, before the window
  std::optional<std::string> after_;  // the state after the window, to which the source goes back
  bool positioned_ = false;           // the source is just after the window's last batch
  // It is at the end of the epoch before, and an evaluation may still change its state.
  bool between_epochs_ = false;
  bool ended_ = false;  // the source has no more batches in this epoch
  std::vector<MicroBatch> window_;
};

// Whether rows draw random numbers, which depend on their place in a micro-batch: dropout or noise.
bool draws_by_row(const config::TrainingArguments& arguments, model::Model& model);

// Whether the run can compute segments that continue others.
bool takes_trees(const config::TrainingArguments& arguments, model::Model& model,
                 const kernels::AttentionPluginPtr& attention);

// share_prefix: common beginnings of rows of a micro-batch are computed once. Returns the limits within which
// a run shares beginnings; none: rows share nothing, for a reason that is logged unless it is share_prefix:
// false. share_prefix: true in such a run is Error(invalid_config). log: may be null.
std::optional<data::TreeLimits> sharing_of(const config::TrainingArguments& arguments, model::Model& model,
                                           const kernels::AttentionPluginPtr& attention, base::LogSink* log);

// Counts the tokens shared so far.
class SharedTokens {
 public:
  void add(int64_t shared, int64_t all);  // all: with those that were not computed again
  void add(const SharedTokens& others);
  int64_t count() const { return shared_; }
  void say(base::LogSink& log) const;  // silent if nothing was shared

 private:
  int64_t shared_ = 0, all_ = 0;
};

}  // namespace trl::train
