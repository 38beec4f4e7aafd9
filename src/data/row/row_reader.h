// The shared reading of preference, unpaired and prompt-only rows: brings their columns to TRL's form,
// tokenises the text or the messages of a column, and cuts or drops by length. Concurrent on const.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "config/dataset/data_arguments.h"
#include "data/prepare/counts.h"
#include "data/row/row_text.h"

namespace trl::data {

template <class T>
struct Made {
  T example;
  Events events;
};

class RowReader {
 public:
  // tools: of all prompts; null: none. They outlive it.
  RowReader(const text::Tokenizer& tokenizer, const config::DataArguments& arguments, int64_t vocab_size,
            const PromptTools* tools = nullptr)
      : tokenizer_(tokenizer), arguments_(arguments), vocab_size_(vocab_size), tools_(tools) {}
  Row normalized(const Row& first) const;
  // Selects and renames columns, and converts from/value and Alpaca's columns next to a label.
  void normalize(Row& row) const;
  // Decides from this column of the first row whether every row is text or messages.
  void decide(const Row& first, std::string_view column, OwnVariables own = OwnVariables::rendered);
  bool conversational() const { return renderer_.has_value(); }
  void require(const Row& row, std::string_view column) const;  // refuses a row that is unlike all rows
  // Return the texts whose tokens are trained on: of the prompt; of a column, with its EOS; of both.
  GivenText prompt_text(const Row& row) const;
  // The last two count a message that the chat template leaves out.
  GivenText text(const Row& row, std::string_view column, Events* events = nullptr) const;
  GivenText prompt_and_text(const Row& row, std::string_view column, Events* events = nullptr) const;
  std::vector<int32_t> ids(const GivenText& text) const;
  // No text has more tokens than this: each token is at least one byte of it, or special.
  static size_t most_ids(const GivenText& text) { return text.text.size() + kSpecialIds; }
  // JSON with fewer bytes than this has no text with max_length ids.
  size_t least_bytes_of_max_length() const;
  // Cut to max_prompt_length and max_completion_length.
  void cut_prompt(std::vector<int32_t>& ids, Events& events) const;
  void cut_completion(std::vector<int32_t>& ids, Events& events) const;
  // Applies long_prompts to a prompt that gets a completion. Throws Error(format) for one that is refused.
  void leave_room(const Row& row, size_t prompt, Events& events) const;
  // Says whether that may drop or refuse one.
  bool limits_prompts() const {
    return arguments_.prompt_room && arguments_.long_prompts != config::LongPrompts::count;
  }
  // Applies max_length, which cuts prompt and completion together when a batch is made.
  void judge(size_t prompt, size_t completion, bool keep_end, Events& events) const;
  // Returns the part of a completion that max_length leaves.
  std::span<const int32_t> kept(size_t prompt, const std::vector<int32_t>& completion, bool keep_end) const;
  const text::Tokenizer& tokenizer() const { return tokenizer_; }
  const config::DataArguments& arguments() const { return arguments_; }
  int64_t vocab_size() const { return vocab_size_; }

 private:
  GivenText render(const Row& row, const base::Json& messages, Events* events) const;
  static constexpr size_t kSpecialIds = 16;
  const text::Tokenizer& tokenizer_;
  const config::DataArguments& arguments_;
  const int64_t vocab_size_;          // for rows of ids
  const PromptTools* const tools_;    // or null
  std::optional<Renderer> renderer_;  // for conversations
};

}  // namespace trl::data
