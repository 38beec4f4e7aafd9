// The pre-tokenizers that tokenizer.ggml.pre names, as llama.cpp splits text for them.
#pragma once
#include <functional>
#include <string>

#include "base/json/json.h"

namespace trl::text {

struct GgufPre {
  const char* name;
  const char* split[6] = {};  // patterns, one step each
  bool digits = false;        // first, each digit is a word
  bool gpt2 = false;          // last, GPT-2's pattern
  bool nfc = false;
  bool ignore_merges = false;
  bool add_bos = false;  // default if the file does not say
};

// Finds a pre-tokenizer; "": default. Throws Error(unsupported) for an unknown name; origin: for messages.
const GgufPre& find_gguf_pre(const std::string& name, const std::string& origin);
// Returns the first match, or nullptr.
const GgufPre* find_gguf_pre_like(const std::function<bool(const GgufPre&)>& matches);
std::string known_gguf_pres();                    // "default, gpt-2, ..."
base::Json pre_tokenizer_of(const GgufPre& pre);  // as in tokenizer.json

}  // namespace trl::text
