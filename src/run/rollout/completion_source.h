// Gives the completions of a generation, if the engine does not write them.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/rollout.h"
#include "run/rollout/tools/tool_host.h"

namespace trl::run {

// A generation, or the rows of it that have other prompts now.
struct WantedCompletions {
  std::string_view mode;  // train or eval
  int64_t step;           // updates done before
  int64_t generation;     // of this mode, from 0
  uint64_t first_stream;  // of draws: that of row i is first_stream + i (engine::GenerationRequest::stream)
  const engine::PromptRows& prompts;
  RowColumns& columns;  // of its rows, which get those that a host adds
};

class CompletionSource {
 public:
  virtual ~CompletionSource() = default;
  // Prepares for a generation after `step` updates: a source that computes with its own copy of the weights
  // gets the current ones. write() generates.
  virtual void sync(int64_t /*step*/) {}
  // Returns a completion for each prompt. Throws Error.
  virtual std::vector<engine::Completion> write(const WantedCompletions& wanted) = 0;
  virtual std::string_view name() const = 0;           // begins messages about completions
  virtual std::string_view key() const { return {}; }  // of the configuration; empty: none
};

}  // namespace trl::run
