// The settings in the files next to tokenizer.json: special tokens, BOS and EOS, the chat template, and the
// class of transformers that rebuilds the tokenizer.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json/json.h"
#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/json_reader.h"
#include "text/tokenizer/tokenizer.h"

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

// Some classes of transformers 5.23 rebuild their tokenizer from its vocabulary. These rows, one for each
// supported class, hold the steps that replace those of tokenizer.json.
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

// Split patterns of model families, which GGUF names too.
extern const char* const kLlama3Split;
extern const char* const kQwen2Split;
extern const char* const kQwen35Split;

// A tokenizer's files, name and bytes; includes tokenizer.json.
using Files = std::vector<std::pair<std::string, std::string>>;
const std::string* find_file(const Files& files, std::string_view name);
inline constexpr const char* kTemplate = "chat_template.jinja";
inline constexpr const char* kMoreTemplates = "additional_chat_templates";  // a folder of NAME.jinja
inline constexpr std::string_view kTemplateEnding = ".jinja";

struct Settings {
  Tokenizer::Special special;
  std::map<int32_t, AddedToken> added;  // added_tokens_decoder, or added_tokens.json
  bool lists_added = false;             // added_tokens_decoder is given
  bool added_yields = false;            // added_tokens.json: an id that tokenizer.json adds is that token
  std::vector<AddedToken> named;        // bos_token, eos_token ...
  std::vector<AddedToken> extra;        // additional_special_tokens, extra_special_tokens
  bool names_pad = false;               // pad_token is given, even as null
  std::map<std::string, std::string> chat_templates;
  std::optional<bool> add_prefix_space;
  std::optional<bool> add_bos, add_eos;
  bool legacy = false;
  struct Cleaning {  // settings of BertTokenizer
    bool lowercase = true;
    bool ideographs = true;
    std::optional<bool> strip_accents;
  };
  Cleaning cleaning;
  Plain plain = Plain::none;
  struct Around {
    std::optional<std::string> before, after;
  };
  std::optional<Around> around;  // tokens around each text instead of tokenizer.json's post-processor
};

// The parts that tokenizers of both kinds of files share.
class FilesTokenizer : public Tokenizer {
 public:
  std::vector<int32_t> encode(std::string_view text, bool add_special_tokens,
                              const ByteRanges& given) const final {
    return run(text, add_special_tokens, false, given).ids;
  }
  Encoding encode_with_offsets(std::string_view text, bool add_special_tokens,
                               const ByteRanges& given) const final;
  bool splits_special_tokens() const final { return splits_; }
  const Special& special() const final { return special_; }
  const std::map<std::string, std::string>& chat_templates() const final { return templates_; }
  std::unique_ptr<Tokenizer> with_added(std::span<const AddedToken> tokens) const final;
  Files files() const final { return *files_; }

 protected:
  FilesTokenizer(Files files, const std::string& origin)
      : files_(std::make_shared<const Files>(std::move(files))), origin_(origin) {}
  virtual Tokens run(std::string_view text, bool add_special_tokens, bool tracked,
                     const ByteRanges& given) const = 0;
  virtual std::unique_ptr<Tokenizer> with_all(const std::map<int32_t, AddedToken>& added) const = 0;
  // Writes the overrides into the files too; added: as with_overrides takes it.
  void take(const Overrides& overrides, const std::map<int32_t, AddedToken>& added);

  std::shared_ptr<const Files> files_;
  std::string origin_;
  Special special_;
  std::map<std::string, std::string> templates_;
  bool splits_ = false;
};

// Chooses the class of transformers 5.23 that AutoTokenizer uses for a model, by tokenizer_config.json,
// config.json (of the model, may be missing) and the ByteLevel steps of tokenizer.json. The result may end in
// "Fast"; empty: a generic class, which uses tokenizer.json unchanged. log, which may be nullptr, gets a
// warning if the file overrules the named class. Throws Error(unsupported) for a class that transformers
// rebuilds and this build cannot.
std::string choose_class(const Files& files, const base::NamedFiles& model, base::LogSink* log);

// directory: for messages; row: the class's row, whose tokens are used if the files name none, or nullptr.
Settings read_settings(const Files& files, const std::string& directory, const ClassRow* row);

// Returns the files with these added tokens listed in tokenizer_config.json, by id.
Files with_listed(Files files, const std::map<int32_t, AddedToken>& added);

// Returns the files with the overrides written in. added: tokens by id, all of which the files then list, so
// that none gets another id when its name is removed; may be empty.
Files with_overrides(Files files, const Tokenizer::Overrides& overrides,
                     const std::map<int32_t, AddedToken>& added);

// Rebuilds a tokenizer.json as a class of transformers does: its vocabulary and merges with the class's
// steps. json: content of the file at path. Returns, as one sentence, the differences in the file that are no
// longer used; empty: class and file agree. Throws Error(unsupported) if the class has another type of model.
std::string rebuild(TokenizerJson& json, const ClassRow& row, const Settings& settings,
                    const std::string& path);

// Returns a step without the parts that have no effect: defaults, lists of one, how offsets are trimmed. Two
// steps with equal results behave the same.
nlohmann::json bare_step(const base::Json& step);

}  // namespace trl::text
