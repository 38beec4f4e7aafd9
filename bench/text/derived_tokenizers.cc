#include "text/derived_tokenizers.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <unordered_set>

#include "base/files/files.h"
#include "base/json/json.h"
#include "base/text/utf8.h"
#include "text/tokenizer/json_reader.h"
#include "text/tokenizer/piece.h"

namespace trl::bench {

namespace {
using base::Json;
constexpr const char* kMark = "\xE2\x96\x81";  // of a space

// The text of a token in the byte alphabet, where it is whole characters.
std::optional<std::string> text_of(std::string_view token) {
  std::string text;
  for (size_t at = 0; at < token.size();) {
    const char32_t c = base::next_code_point(token, at);
    if (c >= text::kByteAlphabetEnd || text::kCharacterBytes[c] < 0) return std::nullopt;
    text += static_cast<char>(text::kCharacterBytes[c]);
  }
  if (text.empty() || base::find_invalid_utf8(text) != base::kValid) return std::nullopt;
  return text;
}

using Texts = std::map<int32_t, std::string>;  // by id

Texts read_texts(const std::string& model) {
  const std::string path = model + "/tokenizer.json";
  Texts texts;
  for (const auto& [token, id] : text::read_tokenizer_json(base::read_file(path), path).vocabulary) {
    if (const auto own = text_of(token)) texts[id] = *own;
  }
  return texts;
}

std::string unigram_vocabulary(const Texts& texts) {
  std::string list = R"([["<unk>",0])";
  std::unordered_set<std::string> known = {"<unk>"};
  for (const auto& [id, text] : texts) {
    std::string token;
    for (const char c : text) c == ' ' ? token.append(kMark) : token.append(1, c);
    if (!known.insert(token).second) continue;
    list += ",[" + Json(token).dump() + "," + Json(-std::log(id + 2.0)).dump() + "]";
  }
  return list + "]";
}

Json unigram() {
  const Json mark = {
      {"type", "Metaspace"}, {"replacement", kMark}, {"prepend_scheme", "always"}, {"split", true}};
  return {{"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {{{"type", "WhitespaceSplit"}}, mark}}}},
          {"decoder", mark},
          {"model", {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", nullptr}, {"byte_fallback", false}}}};
}

std::string word_piece_vocabulary(const Texts& texts) {
  std::vector<std::string> words = {"[UNK]"};
  for (char c = '!'; c <= '~'; ++c) words.insert(words.end(), {std::string(1, c), std::string("##") + c});
  for (const auto& [id, text] : texts) words.push_back(text[0] == ' ' ? text.substr(1) : "##" + text);
  std::string object;
  std::unordered_set<std::string> known;
  for (const std::string& word : words) {
    if (!word.empty() && word != "##" && known.insert(word).second)
      object += (object.empty() ? "{" : ",") + Json(word).dump() + ":" + std::to_string(known.size() - 1);
  }
  return object + "}";
}

Json word_piece() {
  return {{"normalizer",
           {{"type", "BertNormalizer"},
            {"clean_text", true},
            {"handle_chinese_chars", true},
            {"strip_accents", false},
            {"lowercase", false}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", false}}},
          {"model",
           {{"type", "WordPiece"},
            {"unk_token", "[UNK]"},
            {"continuing_subword_prefix", "##"},
            {"max_input_chars_per_word", 1 << 30},
            {"vocab", nullptr}}}};
}
}  // namespace

std::string write_derived_tokenizer(const std::string& model, const std::string& type,
                                    const std::string& folder) {
  const Texts texts = read_texts(model);
  const bool pieces = type == "Unigram";
  Json json = {{"version", "1.0"},         {"added_tokens", Json::array()}, {"normalizer", nullptr},
               {"pre_tokenizer", nullptr}, {"post_processor", nullptr},     {"decoder", nullptr}};
  const Json own = pieces ? unigram() : word_piece();
  for (const auto& [key, value] : own.items()) json[key] = value;
  // The long list is put in by hand: as a tree its keys would be compared with each other.
  std::string text = json.dump();
  constexpr std::string_view kEmpty = "\"vocab\":null";
  const std::string vocabulary = pieces ? unigram_vocabulary(texts) : word_piece_vocabulary(texts);
  text.replace(text.find(kEmpty), kEmpty.size(), "\"vocab\":" + vocabulary);
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/tokenizer.json", std::ios::binary) << text;
  return folder;
}

}  // namespace trl::bench
