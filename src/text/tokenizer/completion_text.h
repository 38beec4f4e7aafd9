// The text of a completion that grows token by token: whole characters, up to a stop text.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace trl::text {

// A stop text may begin and end anywhere in tokens. If several are reached, the completion ends before the
// one that begins first.
class CompletionText {
 public:
  // tokenizer: must outlive this. stops: none of them empty.
  CompletionText(const Tokenizer& tokenizer, std::vector<std::string> stops)
      : vocab_size_(tokenizer.vocab_size()), stream_(tokenizer, true), stops_(std::move(stops)) {}
  // Takes one token. true: the text has reached a stop text, and is over.
  bool add(int32_t id);
  // Ends the text: an unfinished character is a U+FFFD. true: that reached a stop text.
  bool finish();
  // Returns the text that no later token can change, as far as it was not taken before.
  std::string_view take();
  const std::vector<int32_t>& ids() const { return ids_; }
  const std::string& text() const { return text_; }

 private:
  bool append(const std::string& piece);
  size_t certain() const;
  int64_t vocab_size_;
  DecodeStream stream_;
  std::vector<std::string> stops_;
  std::vector<int32_t> ids_;
  std::string text_;
  size_t taken_ = 0;
  bool over_ = false;
};

}  // namespace trl::text
