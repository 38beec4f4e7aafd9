// The text of a completion that grows token by token: whole characters, up to a stop text.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace trl::text {

// A stop text may begin and end anywhere in tokens. It is looked for in the text, which has no special
// tokens, and in the text with them, as transformers does. If several are reached, the completion ends before
// the one that begins first.
class CompletionText {
 public:
  // tokenizer: must outlive this. stops: none of them empty.
  CompletionText(const Tokenizer& tokenizer, std::vector<std::string> stops);
  // Takes one token. true: the text has reached a stop text, and is over.
  bool add(int32_t id);
  // Ends the text: an unfinished character is a U+FFFD. true: that reached a stop text.
  bool finish();
  // Returns the text that no later token can change, as far as it was not taken before.
  std::string_view take();
  const std::vector<int32_t>& ids() const { return ids_; }
  const std::string& text() const { return text_; }
  std::string_view certain() const;  // the text that no later token can change
  // Returns the stop text that it has reached, and by which it ends; null: none.
  const std::string* stop() const { return stop_ < stops_.size() ? &stops_[stop_] : nullptr; }
  // Returns whether a stop text has shortened the text; one of special tokens alone does not.
  bool is_cut() const { return cut_; }

 private:
  // whole: the same with special tokens.
  bool append(const std::string& piece, const std::string& whole);
  void append_whole(size_t before, const std::string& whole);
  void forget_whole();
  size_t certain_size() const;
  int64_t vocab_size_;
  DecodeStream stream_, whole_stream_;
  std::vector<std::string> stops_;
  size_t longest_stop_ = 0, stop_ = std::string::npos;
  std::vector<int32_t> ids_;
  std::string text_;
  std::string whole_;           // the end of the text with special tokens, if there are stop texts
  std::vector<size_t> places_;  // in text_, of the bytes of whole_
  size_t taken_ = 0;
  bool over_ = false, cut_ = false;
};

}  // namespace trl::text
