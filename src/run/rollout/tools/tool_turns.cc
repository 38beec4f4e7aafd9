#include "run/rollout/tools/tool_turns.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace trl::run {

void ToolTurns::start(std::string_view mode, int64_t step, engine::PromptRows& prompts, RowColumns& rows) {
  now_ = {std::string(mode), step, &prompts, &rows};
  iterations_ = calls_ = failures_ = 0;
  conversations_.clear();
  begins_.assign(prompts.ids.size(), 0);
  active_.resize(prompts.ids.size());
  std::iota(active_.begin(), active_.end(), size_t{0});
  host_.reset(now_, prompts, rows);
}

// Reads the turns that have ended; returns those with calls.
std::vector<ToolTurn> ToolTurns::read(std::span<const engine::Completion> completions) {
  std::vector<ToolTurn> turns;
  for (const size_t row : active_) {
    ToolTurn& turn = turns.emplace_back(ToolTurn{row, &completions[row], begins_[row]});
    if (!form_.host_parses())
      turn.message = form_.message_of(turn.ids(), turn.before(now_), *(*now_.rows)[row]);
  }
  if (form_.host_parses()) host_.parse(now_, turns);
  for (const ToolTurn& turn : turns) conversations_[turn.row].push_back(turn.message);
  std::erase_if(turns, [](const ToolTurn& turn) { return turn.calls() == 0; });
  return turns;
}

std::vector<engine::Continuation> ToolTurns::go_on(std::span<const engine::Completion> completions) {
  conversations_.resize(completions.size(), base::Json::array());
  std::vector<ToolTurn> turns = read(completions);
  active_.clear();
  std::vector<engine::Continuation> more;
  if (turns.empty() || iterations_ == arguments_.max_tool_calling_iterations) return more;
  ++iterations_;
  host_.answer(now_, turns, conversations_);
  for (const ToolTurn& turn : turns) {
    calls_ += static_cast<int64_t>(turn.calls());
    failures_ += turn.answers.failures;
    auto next = continuation(turn, completions[turn.row]);
    if (!next) continue;  // its answers have no room, and its calls stay without them
    for (const base::Json& answer : turn.answers.messages) conversations_[turn.row].push_back(answer);
    begins_[turn.row] = completions[turn.row].ids.size() + next->ids.size();
    if (next->max_new_tokens > 0) active_.push_back(turn.row);
    more.push_back(*std::move(next));
  }
  return more;
}

std::optional<engine::Continuation> ToolTurns::continuation(const ToolTurn& turn,
                                                            const engine::Completion& completion) {
  std::vector<int32_t> ids = form_.answer_ids(turn.answers.messages);
  // A template may begin an answer with a token that the model has written to end its turn.
  const bool written = !completion.ids.empty() && !ids.empty() && ids.front() == completion.ids.back();
  if (written && std::ranges::find(ends_, ids.front()) != ends_.end()) ids.erase(ids.begin());
  const int64_t length = std::ssize(completion.ids) + std::ssize(ids);
  const int64_t whole = length + std::ssize(now_.prompts->ids[turn.row]);
  if (length > arguments_.max_completion_length || (positions_ > 0 && whole >= positions_))
    return std::nullopt;
  const int64_t room = arguments_.max_completion_length - length;
  return engine::Continuation{turn.row, std::move(ids), std::min(arguments_.max_new_tokens, room)};
}

std::vector<std::pair<std::string, double>> ToolTurns::metrics() const {
  if (conversations_.empty()) return {};
  const auto calls = static_cast<double>(calls_);
  return {{"tools/call_frequency", calls / static_cast<double>(conversations_.size())},
          {"tools/failure_frequency", calls_ == 0 ? 0.0 : static_cast<double>(failures_) / calls}};
}

}  // namespace trl::run
