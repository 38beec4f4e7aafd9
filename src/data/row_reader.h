// What all rows of preference, unpaired and prompt-only data share: their columns brought to TRL's form, ids
// of the text or the messages of a column, and the lengths that cut or drop them. Concurrent on const.
#pragma once
#include <bitset>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "config/data_arguments.h"
#include "data/row_text.h"

namespace trl::data {

// What can befall an example; from long_prompt on it is dropped.
struct Event {
  enum Kind : size_t { parted, prompt_cut, completion_cut, cut, long_prompt, too_long, empty, count };
};
using Events = std::bitset<Event::count>;

template <class T>
struct Made {
  T example;
  Events events;
};

class RowReader {
 public:
  RowReader(const text::Tokenizer& tokenizer, const config::PreferenceDataArguments& arguments)
      : tokenizer_(tokenizer), arguments_(arguments) {}
  Row normalized(const Row& first) const;
  void normalize(
      Row& row) const;  // selected and renamed columns, from/value, no prompt of text beside messages
  // Every row is text or messages, as this column of the first one.
  void decide(const Row& first, std::string_view column);
  bool conversational() const { return renderer_.has_value(); }
  void require(const Row& row, std::string_view column) const;  // that it is what all rows are
  std::vector<int32_t> prompt(const Row& row) const;
  // Of a column, which gets its EOS; with `prompt` before it.
  std::vector<int32_t> ids(const Row& row, std::string_view column) const;
  std::vector<int32_t> prompt_and(const Row& row, std::string_view column) const;
  // max_prompt_length and max_completion_length.
  void cut_prompt(std::vector<int32_t>& ids, Events& events) const;
  void cut_completion(std::vector<int32_t>& ids, Events& events) const;
  // max_length, which cuts prompt and completion together when a batch is made.
  void judge(size_t prompt, size_t completion, bool keep_end, Events& events) const;
  const config::PreferenceDataArguments& arguments() const { return arguments_; }

 private:
  const text::Tokenizer& tokenizer_;
  const config::PreferenceDataArguments& arguments_;
  std::optional<Renderer> renderer_;  // of conversations
};

}  // namespace trl::data
