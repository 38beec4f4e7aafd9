// Writes the completions of a generation with the model as it is.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/generator.h"
#include "engine/rollout.h"
#include "engine/sampling.h"
#include "generate/generator.h"

namespace trl::train {

// Seconds of all generations.
struct WritingTimes {
  double all = 0;     // the others are parts of it
  double tail = 0;    // the last completion of each alone
  double copies = 0;  // copies of weights, made anew because these had changed or the copies were gone
};

class CompletionWriter {
 public:
  // adapter: of the model; null: the model alone.
  // sleeps: copies of weights go back after each generation, too.
  CompletionWriter(std::unique_ptr<generate::Generator> generator, const model::Adapter* adapter,
                   bool sleeps);
  // Writes with a model alone, and has its own keys and values. The model outlives it.
  CompletionWriter(const model::Model& model, const engine::GeneratorSpec& spec);

  // Asked on the writing thread.
  struct Watch {
    std::function<bool(size_t row, int32_t id)> stops;  // whether a completion ends with this token
    // Rows with one prompt are complete, while others may not be. completions: of all rows.
    std::function<void(std::span<const engine::Completion> completions, std::span<const size_t> rows)>
        finished;
  };
  // Takes the completions so far, and returns those that go on.
  using GoOn = std::function<std::vector<engine::Continuation>(std::span<const engine::Completion>)>;

  // Completes each prompt once, and gives the memory of keys and values back: an update follows. Equal
  // prompts are computed once. Row r is drawn from stream first_stream + r of the
  // seed. go_on: asked after each turn, while keys and values are kept; empty: there is one turn. No graph.
  // Throws Error for a row whose logits are not numbers.
  std::vector<engine::Completion> write(const engine::PromptRows& prompts, const engine::Sampling& sampling,
                                        uint64_t first_stream, const Watch& watch, const GoOn& go_on = {});
  const WritingTimes& times() const { return times_; }

 private:
  const std::unique_ptr<generate::Generator> generator_;
  const model::Adapter* const adapter_;
  const bool sleeps_;
  WritingTimes times_;
};

}  // namespace trl::train
