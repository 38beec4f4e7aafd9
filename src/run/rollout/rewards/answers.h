// The completions of a generation, as reward functions take them.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "engine/rollout.h"
#include "reward/batch.h"
#include "run/tokenizer.h"

namespace trl::run {

// Returns the columns of a row that rewards see: all but prompt and completion_ids.
base::Json reward_columns(const base::Json& row);

class Answers {
 public:
  // All but the tokenizer and the conversations must outlive it. conversations: the messages of each
  // completion, if they have turns.
  Answers(const reward::Moment& moment, const engine::PromptRows& prompts,
          std::span<const std::shared_ptr<const base::Json>> rows,
          std::span<const engine::Completion> completions, const Tokenizer& tokenizer,
          std::span<const base::Json> conversations = {});
  reward::RewardBatch batch() const { return {items_, moment_}; }
  size_t size() const { return items_.size(); }
  const reward::Completion& operator[](size_t index) const { return items_[index]; }

 private:
  const reward::Moment moment_;
  std::vector<base::Json> columns_;   // of each row but its prompt; those of a group are one
  std::vector<std::string> texts_;    // without special tokens
  std::vector<base::Json> messages_;  // of conversations
  std::vector<reward::Completion> items_;
};

}  // namespace trl::run
