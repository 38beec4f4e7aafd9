// The micro-batches of methods that learn from completions: prompts -> completions -> rewards -> advantages
// -> the rows of a generation in slices. A generation is made when its first slice is asked for.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/arithmetic/random.h"
#include "config/training_arguments.h"
#include "engine/batch_source.h"
#include "engine/host.h"
#include "engine/rollout.h"
#include "train/rollout/completion_writer.h"
#include "train/rollout/rollout.h"
#include "train/rollout/run_ahead.h"

namespace trl::train {

// The part of a method in making its rollouts.
class RolloutMethod {
 public:
  // Adds the columns of tokens that the loss needs, such as log-probabilities of a reference, and metrics.
  virtual void before_rewards(Rollout& rollout) = 0;
  // Adds advantages, and the metrics of rewards.
  virtual void after_rewards(Rollout& rollout) = 0;
  // Returns the completions as rewards see them.
  virtual std::vector<engine::Completion> rewarded(const Rollout& rollout) const {
    return rollout.completions;
  }
  // Counts the tokens of prompts and completions.
  virtual int64_t tokens(const Rollout& rollout) const { return rollout.tokens(); }
  // Lays out rows of a rollout as a micro-batch.
  virtual data::Batch batch_of(const Rollout& rollout, std::span<const int64_t> rows) const {
    return train::batch_of(rollout, rows);
  }
  // The model that completes prompts which are for a teacher; null: there are none.
  virtual const model::Model* teacher() { return nullptr; }

 protected:
  ~RolloutMethod() = default;
};

// The numbers that the trainer of a run and its evaluation draw from, in transformers' order: torch's global
// generator draws once for each epoch and each evaluation, and once for each row of a generation. A method
// of episodes has NumPy's generator instead, which only orders the rows of each pass.
struct RolloutChance {
  explicit RolloutChance(uint64_t seed) : generator(seed) {}
  base::TorchGenerator generator;
};

struct Writers {
  std::unique_ptr<CompletionWriter> model, teacher;  // null: no prompts are for it
  WritingTimes times() const;                        // of both
};

class RolloutBatches final : public engine::BatchSource {
 public:
  struct Setup {
    const config::TrainingArguments& arguments;
    const engine::RolloutSpec& spec;
    const Writers& writers;
    RolloutChance& chance;
    bool training = true;
  };
  explicit RolloutBatches(const Setup& setup);
  // Call before the first next(); the method outlives it.
  void learn_by(RolloutMethod& method) { method_ = &method; }
  // Gets the rows of a window, without advantages, while their rewards are to come.
  using WhileRewardsCome = std::function<void(std::span<const data::Batch> window)>;
  void while_rewards_come(WhileRewardsCome work) { work_ = std::move(work); }
  // step: updates done. window: micro-batches that are asked for next, of one update; 0: not known.
  void set_step(int64_t step, int64_t window = 0) {
    step_ = step;
    window_ = window;
  }
  void set_length(const RunSteps& length) { length_ = length; }
  // Completes and scores the first prompts, for the records of the host alone.
  void sample();
  // Seconds in which weights went to whoever writes the completions, of all generations.
  double sync_seconds() const { return std::chrono::duration<double>(synced_).count(); }

  int64_t batches_per_epoch() noexcept override;
  int64_t rows() noexcept override { return source_.prompts(); }
  uint64_t fingerprint() noexcept override { return source_.fingerprint(); }
  int32_t start_epoch(int64_t epoch, int64_t skip, std::span<const int64_t> evaluations_before,
                      engine::ErrorSink& error) noexcept override;
  int32_t start_pass(int64_t batch_size, engine::ErrorSink& error) noexcept override;
  int32_t next(const data::Batch** batch, engine::ErrorSink& error) noexcept override;
  int32_t state(std::string_view* bytes, engine::ErrorSink& error) noexcept override;
  int32_t load_state(std::string_view bytes, engine::ErrorSink& error) noexcept override;

 private:
  int64_t slices() const;   // of a generation
  int64_t repeats() const;  // micro-batches of a generation: its slices, as often as they are learned from
  void position(const std::string& state);  // the source, before the next generation; empty: as it is
  void check_run();                         // once: whether the source lasts for the run
  bool make();                              // false: the epoch is over
  void write(const engine::PromptRows& prompts);
  void sync();
  std::vector<engine::Completion> completions_of(const engine::PromptRows& prompts, uint64_t first_stream);
  void tell_finished(std::span<const engine::Completion> completions, std::span<const size_t> rows);
  bool is_stated(const Rollout& rollout) const;
  void forget_generated();
  void tell_copies(double seconds_before);
  void note_ends();
  engine::Rewards rewards_of(std::span<const engine::Completion> completions);
  void reward();
  void work_ahead();
  bool draws_again() const;
  void draw_again();
  void replace(const std::vector<size_t>& rows);
  std::vector<int64_t> drawn_order();
  std::span<const int64_t> slice(int64_t used) const;  // the rows of that micro-batch
  bool ends_update() const;                            // after that micro-batch, within a step

  const Setup setup_;
  engine::RolloutSource& source_;
  RolloutMethod* method_ = nullptr;
  WhileRewardsCome work_;
  int64_t step_ = 0, window_ = 0;
  int64_t epoch_ = 0, drawn_epoch_ = -1;
  int64_t generation_ = 0;  // of the epoch: the next one
  int64_t made_ = 0;        // since the run began
  int64_t used_ = 0;        // micro-batches of the rollout so far
  uint64_t redrawn_ = 0;    // rows that got other prompts, since the run began
  std::optional<Rollout> rollout_;
  std::vector<int64_t> order_;      // of its rows; of a method of episodes, in one pass after the other
  std::optional<RunSteps> length_;  // none: the source is not asked whether it lasts
  bool checked_ = false;
  bool source_positioned_ = false;
  std::chrono::steady_clock::duration synced_{};
  std::string state_;
  data::Batch batch_;
};

}  // namespace trl::train
