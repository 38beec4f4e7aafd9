#include "text/tokenizer/subword_model.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/utf8.h"

namespace trl::text {

namespace {
// A word is a token, or the unknown token; without that in the vocabulary it is an error.
class WordLevel final : public Model {
 public:
  // where: names the model in messages
  WordLevel(Vocabulary vocabulary, std::string unknown, std::string where)
      : Model(std::move(vocabulary)), unknown_(std::move(unknown)), where_(std::move(where)) {}

  void tokenize(const Piece& word, ModelSpace&, Tokens& out) const override {
    int32_t id = vocabulary_.find(word.text);
    if (id < 0) id = vocabulary_.find(unknown_);
    if (id < 0)
      fail(Status::format, "{}: the word '{}' is not a token, and unk_token '{}' is not in the vocabulary",
           where_, base::one_line(word.text.substr(0, 200)), unknown_);
    out.add(id, word);
  }

 private:
  std::string unknown_, where_;
};

void add(Vocabulary& vocabulary, const std::string& token, int32_t id, const std::string& where) {
  if (!vocabulary.add(token, id))
    fail(Status::format, "{}.vocab: '{}' with the id {}: the token or the id occurs twice", where, token, id);
}

// Reads an object, by token.
Vocabulary read_vocabulary(const TokenizerJson& json, const std::string& where) {
  if (!json.pieces.empty())
    fail(Status::format, "{}.vocab: a list instead of an object of tokens and ids", where);
  if (json.vocabulary.empty()) fail(Status::format, "{}: the vocabulary is missing or empty", where);
  Vocabulary vocabulary;
  vocabulary.reserve(json.vocabulary.size());
  for (const auto& [token, id] : json.vocabulary) add(vocabulary, token, id, where);
  return vocabulary;
}

// Checks affixes: `tokenizers` counts the prefix's characters in a cut of bytes, and makes byte tokens of the
// added text too.
void check_affixes(const BpeOptions& options, const std::string& where) {
  const bool ascii = std::ranges::all_of(options.prefix, [](char c) { return c > 0; });
  if (!ascii)
    fail(Status::unsupported, "{}.continuing_subword_prefix: '{}' is not read; only ASCII characters are",
         where, options.prefix);
  if (options.byte_fallback && !(options.prefix.empty() && options.suffix.empty()))
    fail(Status::unsupported,
         "{}.byte_fallback: true beside continuing_subword_prefix '{}' and end_of_word_suffix '{}' is not "
         "read by this build",
         where, options.prefix, options.suffix);
}

std::unique_ptr<Model> read_bpe(const Field& model, const TokenizerJson& json) {
  if (const std::optional<Field> dropout = model.find("dropout"); dropout && dropout->value() != 0)
    fail(Status::unsupported, "{}: {}: merges are not dropped at random by this build; known is null",
         dropout->where(), dropout->value().dump());
  Vocabulary vocabulary = read_vocabulary(json, model.where());
  if (!json.has_merges) model.at("merges").list();  // not there, or no list: fails
  BpeOptions options;
  options.unknown = model.text_or("unk_token", "");
  options.fuse_unknown = model.boolean_or("fuse_unk", false);
  options.byte_fallback = model.boolean_or("byte_fallback", false);
  options.ignore_merges = model.boolean_or("ignore_merges", false);
  options.prefix = model.text_or("continuing_subword_prefix", "");
  options.suffix = model.text_or("end_of_word_suffix", "");
  check_affixes(options, model.where());
  return std::make_unique<Bpe>(std::move(vocabulary), json.merges, std::move(options), model.where());
}

std::unique_ptr<Model> read_unigram(const Field& model, const TokenizerJson& json) {
  const std::string& where = model.where();
  if (!json.vocabulary.empty())
    fail(Status::format, "{}.vocab: an object instead of a list of tokens and scores", where);
  if (json.pieces.empty()) fail(Status::format, "{}: the vocabulary is missing or empty", where);
  if (json.pieces.size() > static_cast<size_t>(kMaxTokenId) + 1)
    fail(Status::format, "{}.vocab: {} tokens: at most {} are read", where, json.pieces.size(),
         kMaxTokenId + 1);
  UnigramOptions options;
  if (const std::optional<Field> unknown = model.find("unk_id"))
    options.unknown = static_cast<int32_t>(unknown->integer(0, static_cast<int64_t>(json.pieces.size()) - 1));
  options.byte_fallback = model.boolean_or("byte_fallback", false);
  Vocabulary vocabulary;
  vocabulary.reserve(json.pieces.size());
  std::vector<double> scores;
  scores.reserve(json.pieces.size());
  for (const auto& [token, score] : json.pieces) {
    vocabulary.put(token, static_cast<int32_t>(scores.size()));
    scores.push_back(score);
  }
  return make_unigram(std::move(vocabulary), std::move(scores), options, where);
}

std::unique_ptr<Model> read_word_piece(const Field& model, const TokenizerJson& json) {
  WordPieceOptions options;
  options.unknown = model.at("unk_token").text();
  options.prefix = model.at("continuing_subword_prefix").text();
  options.most_characters =
      static_cast<size_t>(model.at("max_input_chars_per_word").integer(0, (int64_t{1} << 31) - 1));
  return make_word_piece(read_vocabulary(json, model.where()), std::move(options), model.where());
}
}  // namespace

std::unique_ptr<Model> read_model(const Field& root, TokenizerJson& json) {
  const Field model = root.at("model");
  const std::string type = model.text_or("type", model_type(json));
  if (type == "BPE") return read_bpe(model, json);
  if (type == "Unigram") return read_unigram(model, json);
  if (type == "WordPiece") return read_word_piece(model, json);
  if (type == "WordLevel")
    return std::make_unique<WordLevel>(read_vocabulary(json, model.where()), model.at("unk_token").text(),
                                       model.where());
  model.unknown("model", "BPE, Unigram, WordLevel, WordPiece");
}

}  // namespace trl::text
