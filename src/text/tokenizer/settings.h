// The settings in the files next to tokenizer.json: special tokens, BOS and EOS, the chat template.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json/json.h"
#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/class_row.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::text {

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

// directory: for messages; row: the class's row, whose tokens are used if the files name none, or nullptr.
Settings read_settings(const Files& files, const std::string& directory, const ClassRow* row);

// Returns the files with these added tokens listed in tokenizer_config.json, by id.
Files with_listed(Files files, const std::map<int32_t, AddedToken>& added);

// Returns the files with the overrides written in. added: tokens by id, all of which the files then list, so
// that none gets another id when its name is removed; may be empty.
Files with_overrides(Files files, const Tokenizer::Overrides& overrides,
                     const std::map<int32_t, AddedToken>& added);

}  // namespace trl::text
