// The host's part in a generation whose completions call tools: it resets environments, finds calls, and
// answers them.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/rollout.h"
#include "run/rollout/host_rollout.h"
#include "run/rollout/tools/tool_answers.h"
#include "run/rollout/tools/tool_template.h"

namespace trl::run {

using RowColumns = std::vector<std::shared_ptr<const base::Json>>;

// The generation that is being written.
struct ToolGeneration {
  std::string mode;  // train or eval
  int64_t step = 0;  // updates done
  const engine::PromptRows* prompts = nullptr;
  const RowColumns* rows = nullptr;
};

// A turn of a completion that has ended.
struct ToolTurn {
  size_t row;
  const engine::Completion* completion;  // so far
  size_t begin;                          // in the completion
  base::Json message = {};               // of the assistant
  ToolAnswers answers = {};

  std::span<const int32_t> ids() const { return std::span(completion->ids).subspan(begin); }
  std::vector<int32_t> before(const ToolGeneration& now) const;  // the prompt, and the turns before
  size_t calls() const { return message.contains("tool_calls") ? message["tool_calls"].size() : 0; }
};

class ToolHost {
 public:
  // Has the host set a value of each row; throws Error(callback).
  using Function = std::function<void(const std::shared_ptr<HostRollout>&)>;

  explicit ToolHost(const ToolTemplate& form) : form_(form) {}
  void call(Function function) { function_ = std::move(function); }
  // Throws Error(invalid_config) if no host answers. replayed: completions come from a file, with their
  // turns.
  void check(bool replayed) const;

  // Resets the environment of each row, if there are any, and adds to prompts and rows what it says.
  void reset(const ToolGeneration& now, engine::PromptRows& prompts, RowColumns& rows) const;
  // Asks for the messages of turns.
  void parse(const ToolGeneration& now, std::vector<ToolTurn>& turns) const;
  // Answers the calls of turns; one of a tool that a row does not have fails without asking.
  void answer(const ToolGeneration& now, std::vector<ToolTurn>& turns,
              std::span<const base::Json> conversations) const;

 private:
  HostRow row_of(const ToolGeneration& now, size_t row, std::string_view ask) const;
  HostRow row_of(const ToolGeneration& now, const ToolTurn& turn, std::string_view ask) const;
  std::shared_ptr<HostRollout> ask(const ToolGeneration& now, std::vector<HostRow> rows,
                                   std::string_view value) const;

  const ToolTemplate& form_;
  Function function_;
};

}  // namespace trl::run
