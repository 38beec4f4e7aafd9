// The micro-batches of methods that learn from completions: prompts -> completions -> rewards -> advantages
// -> the rows of a generation in slices. A generation is made when its first slice is asked for.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/arithmetic/random.h"
#include "config/training_arguments.h"
#include "engine/engine.h"
#include "train/rollout/completion_writer.h"
#include "train/rollout/rollout.h"

namespace trl::train {

// The part of a method in making its rollouts.
class RolloutMethod {
 public:
  // Adds the columns of tokens that the loss needs, such as log-probabilities of a reference, and metrics.
  virtual void before_rewards(Rollout& rollout) = 0;
  // Adds advantages, and the metrics of rewards.
  virtual void after_rewards(Rollout& rollout) = 0;

 protected:
  ~RolloutMethod() = default;
};

// The numbers that the trainer of a run and its evaluation draw from, in transformers' order: torch's global
// generator draws once for each epoch and each evaluation, and once for each row of a generation.
struct RolloutChance {
  explicit RolloutChance(uint64_t seed) : generator(seed) {}
  base::TorchGenerator generator;
};

class RolloutBatches final : public engine::BatchSource {
 public:
  struct Setup {
    const config::TrainingArguments& arguments;
    const engine::RolloutSpec& spec;
    CompletionWriter& writer;
    RolloutChance& chance;
    bool training = true;
  };
  explicit RolloutBatches(const Setup& setup);
  // Call before the first next(); the method outlives it.
  void learn_by(RolloutMethod& method) { method_ = &method; }
  void set_step(int64_t step) { step_ = step; }  // updates done

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
  bool make();              // false: the epoch is over
  void write(const engine::PromptRows& prompts);
  void check_rewards() const;
  data::Batch slice();

  const Setup setup_;
  engine::RolloutSource& source_;
  RolloutMethod* method_ = nullptr;
  int64_t step_ = 0;
  int64_t epoch_ = 0, drawn_epoch_ = -1;
  int64_t generation_ = 0;  // of the epoch: the next one
  int64_t made_ = 0;        // since the run began
  int64_t used_ = 0;        // micro-batches of the rollout so far
  std::optional<Rollout> rollout_;
  std::vector<int64_t> order_;  // of its rows
  bool source_positioned_ = false;
  std::string source_state_, state_;
  data::Batch batch_;
};

// The micro-batches of a run and of its evaluation.
class Rollouts {
 public:
  Rollouts(const config::TrainingArguments& arguments, const engine::RolloutSpec& spec,
           std::unique_ptr<CompletionWriter> writer);
  void learn_by(RolloutMethod& method);
  void set_step(int64_t step);  // updates done
  engine::BatchSource* train() { return &train_; }
  engine::BatchSource* eval() { return eval_ ? &*eval_ : nullptr; }

 private:
  const config::TrainingArguments arguments_;
  const engine::RolloutSpec spec_;
  const std::unique_ptr<CompletionWriter> writer_;
  RolloutChance chance_;
  RolloutBatches train_;
  std::optional<RolloutBatches> eval_;
};

}  // namespace trl::train
