// Prompts of a run for the engine, and all that is added to their completions: a file that is replayed,
// rewards, files that are written.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/host.h"
#include "engine/rollout.h"
#include "run/rollout/answer_choice.h"
#include "run/rollout/completion_log.h"
#include "run/rollout/completion_source.h"
#include "run/rollout/host_writer.h"
#include "run/rollout/pass_at_k.h"
#include "run/rollout/prompts.h"
#include "run/rollout/record.h"
#include "run/rollout/replay.h"
#include "run/rollout/rewards/rewards.h"
#include "run/rollout/tools/tool_turns.h"
#include "run/server/server_writer.h"
#include "text/tokenizer/completion_text.h"

namespace trl::run {

// The parts that training and evaluation share; the first two may be null.
struct RolloutParts {
  std::unique_ptr<Replay> replay;
  std::unique_ptr<Record> record;
  std::unique_ptr<CompletionLog> log;
  std::unique_ptr<RewardFunctions> rewards;
  std::unique_ptr<PassAtK> passes;
  std::shared_ptr<Tokenizer> tokenizer;
  std::shared_ptr<Prompts> eval_prompts = {};  // or null
  // The token that rewards see after completions up to the longest of a generation; none: they see none.
  std::optional<int32_t> pad = {};
  std::optional<AnswerChoice> choice = {};  // GKD
  std::unique_ptr<ToolTurns> tools = {};    // or null
  bool reward_by_group = false;
  bool schedule_needs_length = false;                          // config::schedule_needs_length
  bool resamples = false;                                      // groups without spread get other prompts
  size_t group = 1;                                            // completions of a prompt in training
  bool apart = false;                                          // all first ones come before all second ones
  std::map<std::string, std::vector<std::string>> stops = {};  // texts that end a completion, by mode
  std::map<std::string, int64_t> made = {};                    // generations so far, by mode
  int64_t positions = 0;  // that the model has learned; 0: rows may have any length
  HostWriter::Host host = {};
  std::unique_ptr<ServerWriter> server = {};  // or null
};

class RolloutRows final : public engine::RolloutSource {
 public:
  // parts: outlive it. mode: train or eval.
  RolloutRows(std::string_view mode, std::shared_ptr<Prompts> prompts, RolloutParts& parts);

  int64_t prompts() noexcept override { return prompts_->count(); }
  int64_t generations_per_epoch() noexcept override { return prompts_->generations(); }
  uint64_t fingerprint() noexcept override { return prompts_->fingerprint(); }
  int32_t start_epoch(int64_t epoch, int64_t generation, engine::ErrorSink& error) noexcept override;
  int32_t check_run(const engine::RunAhead& run, engine::ErrorSink& error) noexcept override;
  int32_t next(int64_t step, const engine::PromptRows** prompts, engine::ErrorSink& error) noexcept override;
  int32_t sync(engine::ErrorSink& error) noexcept override;
  int32_t complete(uint64_t first_stream, std::vector<engine::Completion>* completions,
                   engine::ErrorSink& error) noexcept override;
  int32_t go_on(std::span<const engine::Completion> completions, std::vector<engine::Continuation>* more,
                engine::ErrorSink& error) noexcept override;
  bool stops(size_t row, int32_t id) noexcept override;
  int32_t finished(std::span<const engine::Completion> completions, std::span<const size_t> rows,
                   engine::ErrorSink& error) noexcept override;
  bool rewards_are_late() noexcept override { return parts_.rewards->late(); }
  int32_t reward(std::span<const engine::Completion> completions, engine::Rewards* rewards,
                 engine::ErrorSink& error) noexcept override;
  int32_t redraw(std::span<const size_t> rows, const engine::PromptRows** prompts,
                 engine::ErrorSink& error) noexcept override;
  int32_t scored(std::span<const engine::Completion> completions, const engine::Rewards& rewards,
                 std::span<const float> advantages, engine::ErrorSink& error) noexcept override;
  int32_t state(std::string_view* bytes, engine::ErrorSink& error) noexcept override;
  int32_t load_state(std::string_view bytes, engine::ErrorSink& error) noexcept override;

 private:
  // Returns the writer of the completions; null: the engine.
  CompletionSource* writer();
  // Refuses completions from elsewhere that go beyond the positions of the model.
  void check_lengths(std::span<const engine::Completion> completions, const CompletionSource& from) const;

  const std::string mode_;
  const std::shared_ptr<Prompts> prompts_;
  RolloutParts& parts_;
  bool asks_by_group() const { return parts_.reward_by_group && !parts_.tools && replayed_.rows().empty(); }
  // Returns how far apart the rows of a group are, if rewards see this many rows by group; else 1.
  size_t distance(size_t rows) const { return asks_by_group() && parts_.apart ? rows / parts_.group : 1; }
  // Returns the rows of the groups that are whole now that these are finished.
  std::vector<size_t> whole_groups(std::span<const size_t> rows);
  void begin_rewards(std::span<const engine::Completion> completions, std::span<const size_t> rows);
  // Returns completions as rewards see them: padded to the longest of those that are asked for together.
  std::span<const engine::Completion> rewarded(std::span<const engine::Completion> completions);
  // Finds the completions from elsewhere that end with a stop text.
  void find_stops(std::vector<engine::Completion>& completions);
  void keep_extras();
  // The rows that are written now: those that were drawn anew, or all.
  const engine::PromptRows& written_prompts() const { return redrawn_.empty() ? rows_ : redrawn_prompts_; }
  RowColumns& written_columns() { return redrawn_.empty() ? columns_ : redrawn_columns_; }
  text::CompletionText new_text();
  bool replays_resampled() const { return parts_.replay && parts_.resamples && mode_ == "train"; }
  void take_recorded_prompts();

  int64_t step_ = 0;             // updates done
  engine::PromptRows rows_;      // of this generation
  RowColumns columns_;           // of its rows
  std::vector<size_t> redrawn_;  // rows that are drawn anew; empty: none is
  engine::PromptRows redrawn_prompts_;
  RowColumns redrawn_columns_;
  std::vector<int64_t> draws_;               // by row: how often it was drawn anew; empty: none was
  std::vector<text::CompletionText> texts_;  // of the completions that may end with a text
  size_t finished_ = 0;                      // rows, of those that are written now
  std::vector<size_t> left_;                 // rows of each group that are not, if they are apart
  reward::Columns extras_;                   // of all rows
  ReplayedCompletions replayed_;             // those of this generation
  HostWriter written_;                       // those that the host has written
  AnswersOf by_ = AnswersOf::model;
  std::vector<engine::Completion> padded_;  // that rewards see
  std::optional<Answers> answers_;          // from reward() to scored()
  std::string state_;
};

}  // namespace trl::run
