// Makes the files of a Hugging Face tokenizer from a vocabulary as GGUF holds it.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json/json.h"
#include "base/log.h"
#include "text/tokenizer/settings.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::text {

// Values of PlainVocabulary::token_types, as ggml numbers them.
enum : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

// Throws Error(unsupported) for another model or an unknown pre-tokenizer, Error(format) for lists that do
// not fit.
Files files_of(const PlainVocabulary& vocabulary, const std::string& origin);

// The pre-tokenizers that tokenizer.ggml.pre names, as llama.cpp splits text for them.
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

// Derives the merges of a SentencePiece BPE vocabulary, which has scores instead of merges.
// Returns a pair for every way to make a token of two, the highest score first, as transformers orders them:
// among equal scores the longer left part first, then the longer right one. scores: one for each token. The
// parts borrow from tokens.
std::vector<std::pair<std::string_view, std::string_view>> merges_of_scores(
    const std::vector<std::string>& tokens, const std::vector<float>& scores);

// Converts a tokenizer to a vocabulary as GGUF holds it.
// Returns a vocabulary that llama.cpp and Tokenizer::from_vocabulary read as this tokenizer. origin: names
// its files in messages. log, which may be nullptr, gets a warning for everything that GGUF cannot store.
// Throws Error(unsupported), naming the step, for a tokenizer that no GGUF file can describe.
PlainVocabulary export_vocabulary(const Tokenizer& tokenizer, const std::string& origin, base::LogSink* log);

}  // namespace trl::text
