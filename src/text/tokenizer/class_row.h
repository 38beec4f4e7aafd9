// Some classes of transformers 5.23 rebuild their tokenizer from its vocabulary. These rows, one for each
// supported class, hold the steps that replace those of tokenizer.json.
#pragma once
#include <string>
#include <string_view>

namespace trl::text {

// Texts of a class's tokens if tokenizer_config.json names none. nullptr: the class has no default; "": by
// default the class has no such token.
struct DefaultTokens {
  const char* bos = nullptr;
  const char* eos = nullptr;
  const char* unk = nullptr;
  const char* sep = nullptr;
  const char* pad = nullptr;
  const char* cls = nullptr;
  const char* mask = nullptr;
};

enum class Shape {
  byte_level,  // GPT-2's byte alphabet after a split
  metaspace,   // Llama's: a mark of a space before the text
  gemma,       // marks of spaces, none before the text
  bert,        // BERT's cleaning, words and punctuation
  unigram      // words, each with a mark of a space before it
};

// The tokens around every text: the choice of tokenizer.json's post-processor, nothing, BOS, EOS ...
enum class Surround { file, nothing, bos, eos, bos_eos, cls_sep };

// Tokens that become plain special ones whatever the files say about them: none, the extra ones, or the named
// ones too.
enum class Plain { none, extra, all };

struct ClassRow {
  std::string_view name;  // without "Fast"
  std::string_view model = "BPE";
  Shape shape = Shape::byte_level;
  DefaultTokens tokens = {};
  const char* split = nullptr;  // a pattern before the byte alphabet; nullptr: GPT-2's
  bool nfc = false;
  bool digits = false;            // each digit is a word
  bool unknown_in_model = false;  // the model uses unk_token for text without a token
  bool infilling = false;         // Code Llama's five tokens, and no legacy treatment of its spaces
  Surround surround = Surround::file;
  Plain plain = Plain::none;
  int unknown_id = -1;     // id for Unigram, whatever the file says
  bool sentinels = false;  // T5's <extra_id_0> ... if no extra tokens are named
};

// Returns the row of a class, with or without "Fast". nullptr: the class uses tokenizer.json unchanged.
const ClassRow* find_class_row(std::string_view name);
// Returns whether transformers rebuilds the class in a way that no row here describes.
bool is_unread_class(std::string_view name);
// Returns "LlamaTokenizer, ..." for messages.
std::string known_classes();

// Split patterns of model families, which GGUF names too.
extern const char* const kLlama3Split;
extern const char* const kQwen2Split;
extern const char* const kQwen35Split;

}  // namespace trl::text
