// A tokenizer small enough to follow by eye: a token per byte (id = byte) and ten merges from id 256 on.
#pragma once
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "base/text/utf8.h"
#include "text/tokenizer/piece.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::text::tiny {

using base::Json;
using Ids = std::vector<int32_t>;
using Offsets = std::vector<std::pair<uint32_t, uint32_t>>;

inline std::string byte_character(unsigned byte) {
  std::string character;
  base::append_utf8(character, kByteCharacters[byte]);
  return character;
}

// he 256, ll 257, hell 258, hello 259, " w" 260, é 261, two spaces 262, th 263, the 264
inline std::vector<std::string> tiny_tokens() {
  std::vector<std::string> tokens;
  for (unsigned byte = 0; byte < 256; ++byte) tokens.push_back(byte_character(byte));
  const std::string space = byte_character(' ');
  for (const std::string& merged :
       {std::string("he"), std::string("ll"), std::string("hell"), std::string("hello"), space + "w",
        byte_character(0xC3) + byte_character(0xA9), space + space, std::string("th"), std::string("the")})
    tokens.push_back(merged);
  return tokens;
}
inline std::vector<std::string> tiny_merges() {
  const std::string space = byte_character(' ');
  return {"h e",
          "l l",
          "he ll",
          "hell o",
          space + " w",
          byte_character(0xC3) + " " + byte_character(0xA9),
          space + " " + space,
          "t h",
          "th e"};
}

inline Json byte_level(bool prefix_space = false) {
  return {
      {"type", "ByteLevel"}, {"add_prefix_space", prefix_space}, {"trim_offsets", true}, {"use_regex", true}};
}

inline Json tiny_json() {
  Json vocab = Json::object();
  for (const std::string& token : tiny_tokens()) vocab[token] = vocab.size();
  return {{"version", "1.0"},
          {"added_tokens", Json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level()},
          {"post_processor", nullptr},
          {"decoder", byte_level()},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", tiny_merges()}}}};
}

// Tokens that the tiny vocabulary lacks get the ids from 265 on.
inline Json added(int id, const std::string& content, const std::string& flag = {}) {
  Json token = {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
                {"rstrip", false}, {"normalized", false}, {"special", false}};
  if (!flag.empty()) token[flag] = true;
  return token;
}

// A directory that goes away with the object.
class Folder {
 public:
  Folder() {
    std::string pattern = "/tmp/trl_tokenizer_XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~Folder() { base::remove_tree(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }
  Folder& put(const std::string& name, const std::string& bytes) {
    const std::filesystem::path file = base::join_path(path_, name);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
    return *this;
  }

 private:
  std::string path_;
};

inline std::unique_ptr<Tokenizer> open(const Json& tokenizer, const Json& config = nullptr) {
  Folder folder;
  folder.put("tokenizer.json", tokenizer.dump());
  if (!config.is_null()) folder.put("tokenizer_config.json", config.dump());
  return Tokenizer::from_files(folder.path());
}

// The error of a call; status ok and no text when there is none.
template <typename Call>
Error error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return Error(Status::ok, "");
}

}  // namespace trl::text::tiny
