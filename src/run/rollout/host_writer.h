// Completions that the host writes, turn by turn, with the values that it adds to them.
#pragma once
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/rollout.h"
#include "reward/batch.h"
#include "run/rollout/completion_source.h"
#include "run/rollout/host_rollout.h"
#include "run/rollout/tools/tool_turns.h"

namespace trl::run {

class HostWriter final : public CompletionSource {
 public:
  // Has the host set a completion of each row; throws Error(callback).
  using Function = std::function<void(const std::shared_ptr<HostRollout>&)>;
  struct Host {
    Function function = {};                  // empty: it writes nothing
    std::function<void()> has_written = {};  // called after each generation
    int64_t vocabulary = 0;                  // ids of the model
  };

  // host: outlives this. tools: of completions with several turns; or null.
  HostWriter(const Host& host, ToolTurns* tools) : host_(host), tools_(tools) {}
  // Writes a generation, and forgets the one before. Throws Error(invalid_argument) for an id that the model
  // lacks.
  std::vector<engine::Completion> write(const WantedCompletions& wanted) override;
  std::string_view name() const override { return "the host's rollout"; }
  void clear() { turns_.clear(); }
  void add_metrics(engine::Rewards& rewards) const;
  // Adds the columns of the host. all: completions of the generation.
  void add_extras(size_t all, reward::Columns& extras) const;

 private:
  void write_turn(const std::shared_ptr<HostRollout>& rollout, std::span<const size_t> rows,
                  RowColumns& columns);
  void go_on(const WantedCompletions& wanted, std::span<const engine::Continuation> more);

  const Host& host_;
  ToolTurns* const tools_;
  std::vector<engine::Completion> completions_;
  // With the rows of each.
  std::vector<std::pair<std::shared_ptr<const HostRollout>, std::vector<size_t>>> turns_;
};

}  // namespace trl::run
