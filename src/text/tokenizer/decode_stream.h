// Decodes tokens that arrive one by one into whole characters. All steps together give the text that decode()
// gives for all ids at once, except that byte tokens which form no character are replaced as bytes, not as a
// run, and that a BPEDecoder's last word keeps the space after it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace trl::text {

class DecodeStream {
 public:
  DecodeStream(const Tokenizer& tokenizer, bool skip_special_tokens)
      : tokenizer_(&tokenizer), skip_(skip_special_tokens) {}
  std::string step(int32_t id);
  std::string finish();  // call when an incomplete character will not be completed any more

 private:
  const Tokenizer* tokenizer_;
  bool skip_;
  bool begun_ = false;
  std::vector<int32_t> before_;  // ids that gave no text, while the text has not begun
  std::string pending_;          // bytes that are not a whole character yet
};

}  // namespace trl::text
