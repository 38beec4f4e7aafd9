// The turns of a generation whose completions call tools: after each one the host answers the calls, and the
// completion continues after the answers, as in TRL's _tool_call_loop.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config/online/online_arguments.h"
#include "engine/rollout.h"
#include "run/rollout/tools/tool_host.h"
#include "run/rollout/tools/tool_template.h"

namespace trl::run {

class ToolTurns {
 public:
  // form: outlives it.
  ToolTurns(const config::OnlineArguments& arguments, const ToolTemplate& form)
      : arguments_(arguments), form_(form), host_(form) {}
  ToolHost& host() { return host_; }
  // positions: of the model; 0: any number. ends: tokens that end a turn.
  void set_model(int64_t positions, std::vector<int32_t> ends) {
    positions_ = positions;
    ends_ = std::move(ends);
  }

  // Begins a generation, whose environments are reset: what they say is added to prompts and rows, which stay
  // until its last turn.
  void start(std::string_view mode, int64_t step, engine::PromptRows& prompts, RowColumns& rows);
  // Takes all completions so far, and returns those that go on. Call until there are none.
  std::vector<engine::Continuation> go_on(std::span<const engine::Completion> completions);

  // Returns the messages of each completion; empty: no turn was read.
  std::span<const base::Json> conversations() const { return conversations_; }
  // tools/call_frequency (calls by completion) and tools/failure_frequency (by call); none: no turn was read.
  std::vector<std::pair<std::string, double>> metrics() const;

 private:
  std::vector<ToolTurn> read(std::span<const engine::Completion> completions);
  std::optional<engine::Continuation> continuation(const ToolTurn& turn,
                                                   const engine::Completion& completion);

  const config::OnlineArguments arguments_;
  const ToolTemplate& form_;
  ToolHost host_;
  int64_t positions_ = 0;
  std::vector<int32_t> ends_;

  ToolGeneration now_;
  int64_t iterations_ = 0, calls_ = 0, failures_ = 0;
  std::vector<base::Json> conversations_;
  std::vector<size_t> active_;  // rows whose turn has not been read
  std::vector<size_t> begins_;  // of the turn of each row in its completion
};

}  // namespace trl::run
