// What the files beside tokenizer.json say: special tokens, BOS and EOS, the chat template.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::text {

// A tokenizer's files, name and bytes; tokenizer.json is among them.
using Files = std::vector<std::pair<std::string, std::string>>;
const std::string* find_file(const Files& files, std::string_view name);

struct Settings {
  Tokenizer::Special special;
  std::vector<AddedToken> added;  // added_tokens_decoder, by id
  std::vector<std::pair<std::string, AddedToken>>
      named;                  // bos_token, additional_special_tokens ...: key, token
  bool names_pad = false;     // pad_token is given, if only as null
  bool sets_bos_eos = false;  // add_bos_token or add_eos_token is given
  bool add_bos = false;
  bool add_eos = false;
  std::string chat_template;
};

// directory: for messages
Settings read_settings(const Files& files, const std::string& directory);

// The files with the overrides written in.
Files with_overrides(Files files, const Tokenizer::Overrides& overrides);

}  // namespace trl::text
