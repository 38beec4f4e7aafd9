// Turns a conversation into a prompt and its completion, the last message, by the rules of TRL's
// DataCollatorForChatML.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "data/prepare/preference_examples.h"
#include "data/row/row_reader.h"

namespace trl::data {

class ConversationRows {
 public:
  static constexpr std::string_view kName = "conversations";
  // The first row decides; its column `messages` must hold a conversation.
  ConversationRows(RowReader reader, const Row& first);
  // any thread. Changes the row. Throws Error(format) if max_length leaves no token of the prompt.
  void examples(Row& row, std::vector<Made<PromptExample>>& out) const;
  bool one_each() const { return true; }
  size_t least_bytes_to_drop() const { return reader_.limits_prompts() ? 0 : SIZE_MAX; }
  size_t most_tokens(Row&) const { return reader_.limits_prompts() ? SIZE_MAX : 0; }

 private:
  GivenText prompt_of(const Row& row, const GivenText& whole) const;
  size_t prompt_ids(const GivenText& prompt, const GivenText& whole, size_t all) const;

  RowReader reader_;
  bool byte_level_;  // the tokenizer's pieces are bytes
};

}  // namespace trl::data
