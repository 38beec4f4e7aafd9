// The text of a completion that grows token by token.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace trl::run {

// Decodes one growing completion: token ids to text piece by piece, never half a character, ending before a
// stop text.
class CompletionText {
 public:
  CompletionText(const text::Tokenizer& tokenizer, std::vector<std::string> stops)
      : vocab_size_(tokenizer.vocab_size()), stream_(tokenizer, true), stops_(std::move(stops)) {}
  // Takes one token; the text that has become certain is written() since the last call. true: the text
  // reached a stop text.
  bool add(int32_t id);
  void finish();            // ends the input: the text held back is certain too
  std::string_view take();  // certain text that was not taken yet
  const std::vector<int32_t>& ids() const { return ids_; }
  const std::string& text() const { return text_; }

 private:
  size_t certain() const;  // bytes of text_ that no stop text can still claim
  int64_t vocab_size_;
  text::DecodeStream stream_;
  std::vector<std::string> stops_;
  std::vector<int32_t> ids_;
  std::string text_;
  size_t taken_ = 0;
  bool over_ = false;
};

}  // namespace trl::run
