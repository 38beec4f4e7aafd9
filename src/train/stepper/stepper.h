// Makes updates: the micro-batches of a window go forward and backward, and then the weights are changed.
// Until then only gradients have changed, and a window can be begun again.
//
// With optimizer_in_backward the update begins in the middle of backward. All that can be known earlier (the
// loss, changed files of the model) is checked earlier. Another failure in that time, such as a gradient that
// is not finite or too little memory, leaves some weights updated and others not: the stepper is torn, and
// must not be used any more.
#pragma once
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/path.h"
#include "optim/optim.h"
#include "train/batches/batches.h"
#include "train/method.h"
#include "train/run/setup.h"
#include "train/stepper/forward_ahead.h"
#include "train/stepper/gradients.h"

namespace trl::train {

class FrozenLayers;
struct Joint;
class Offloading;

// The place of an update in the run.
struct StepPlace {
  int64_t step = 0;  // updates done before
  double learning_rate = 0;
  // clip_by_previous_norm: the norm of the gradient of the update before; none: it is not known.
  std::optional<double> previous_norm = {};
};

// The results of one window.
struct Learned {
  float loss = 0;                      // of the window: the sum over its micro-batches
  std::vector<float> losses;           // of the micro-batches that were learned from, in their order
  std::vector<MethodMetrics> metrics;  // theirs
  int64_t shared_tokens = 0;           // of those micro-batches
  int64_t silent_rows = 0;             // of them, those that went through no backward
  double silent_seconds = 0;           // that these saved
  double optimizer_seconds = 0;        // of clipping and of changing the weights, outside of backward
  double seconds = 0;                  // of the step without these, completions and rewards included
  double norm = std::nan("");          // of the gradient, before clipping
  bool skipped = false;                // on_nonfinite: nothing was learned from the window
  bool omitted = false;                // as asked: the weights are as before
};

class Stepper {
 public:
  explicit Stepper(const Setup& setup);  // outlives it
  ~Stepper();

  // Makes one step: backward() and end().
  Learned step(std::span<const MicroBatch> window, const StepPlace& place);
  // The first half of a step: begin(), and accumulate() until all micro-batches are in. The window outlives
  // the step. If its rows end several updates, all but the last are made here; after an error, a call with
  // the same window goes on with the update that failed.
  void backward(std::span<const MicroBatch> window, const StepPlace& place);
  const Learned& learned() const { return learned_; }  // so far, of the update that is not made
  // The second half: update(), and the results of the whole step.
  Learned end(bool apply = true);
  // Drops the gradients of an update that is not made, and its forward ahead: weights may change meanwhile.
  void leave();
  int64_t updates_done() const { return std::ssize(updates_); }  // of a step that failed after some of them

  // Begins a window, which outlives the update.
  void begin(std::span<const MicroBatch> window, const StepPlace& place);
  // Adds the gradient of the next micro-batch, or of all that follow if they are computed together. false:
  // the window is skipped, and none follows.
  bool accumulate();
  // Changes the weights, unless the window is skipped, and drops the gradients. apply: false: the update is
  // omitted. An error comes before the weights change, and it can be called again.
  Learned update(bool apply = true);
  // Makes the first forward of a window that begins next, as far as its rows are known: columns are not. It
  // is made again if others come first. Does nothing if forwards leave traces outside their graph.
  void forward_ahead(std::span<const MicroBatch> window, const StepPlace& place);
  void forget_ahead() { ahead_.reset(); }

  // Runs a micro-batch or a part of it through the model. Without a position: evaluation.
  model::Output forward(const MicroBatch& batch, const std::optional<RunPosition>& training);

  Method& method() const { return *method_; }
  optim::Optimizer& optimizer() const { return *optimizer_; }
  Offloading* offloading() const { return offloading_.get(); }  // null: activations stay in memory
  const std::optional<data::TreeLimits>& share() const { return share_; }
  kernels::Path path() const;  // of all kernels of this run
  bool torn() const { return backward_step_ && backward_step_->torn(); }
  // Returns the state that a checkpoint keeps after this many updates, besides the model and the optimizer's:
  // the method's, and the weights of the other models that it trains.
  std::vector<optim::StateTensor> kept(int64_t step) const;

 private:
  const config::TrainingArguments& arguments() const { return setup_.arguments; }
  // The place of a backward among those of the rows that go through the model together, and of the window.
  enum class Order : uint8_t { before_another_part, last_of_rows, last_of_window };
  using Backward = std::function<void(const at::Tensor& graph, Order order)>;
  // Runs the next rows. backward: gets the graph of a part's share.
  bool run(const Backward& backward);
  // Returns the rows of the window that go through the model next.
  Joint next_rows(std::span<const MicroBatch> rest, bool skips_silent);
  RunPosition position(int64_t step, int64_t micro_batch) const;
  void take_results(std::vector<BatchResult> results, std::span<const MicroBatch> batches,
                    const Joint& joint);
  void begin_collecting(std::span<const MicroBatch> window);
  bool accumulate_and_update();
  double clip_scale(double norm) const;
  std::optional<double> previous_scale() const;
  bool accepts(double value, std::string_view what, std::span<const MicroBatch> batches) const;
  std::string advice() const;

  const Setup& setup_;
  std::vector<tensor::Parameter*> parameters_;  // of all models that are trained
  const std::shared_ptr<void> int8_;            // frozen_compute: int8
  const std::shared_ptr<void> float32_head_;    // cast_lm_head_to_fp32
  const std::unique_ptr<Method> method_;
  Gradients gradients_;
  const std::unique_ptr<optim::Optimizer> optimizer_;
  std::optional<BackwardStep> backward_step_;  // optimizer_in_backward
  const std::optional<data::TreeLimits> share_;
  std::unique_ptr<FrozenLayers> frozen_;  // null: no states are kept
  std::unique_ptr<Offloading> offloading_;

  // The window.
  std::span<const MicroBatch> window_;
  StepPlace place_;
  int64_t first_ = 0;  // micro-batches of the step before this window
  Divisors divisors_;
  Learned learned_;
  double seconds_of_token_ = 0;  // in the last window, of a row that learned
  std::optional<ForwardAhead> ahead_;

  std::vector<Learned> updates_;  // of a step that is not done
};

}  // namespace trl::train
