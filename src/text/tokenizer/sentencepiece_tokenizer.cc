#include "text/tokenizer/sentencepiece_tokenizer.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/files/files.h"
#include "base/text/utf8.h"

namespace trl::text {

namespace {
using sentencepiece::Kind;

class SentencePieceTokenizer final : public FilesTokenizer {
 public:
  SentencePieceTokenizer(Files files, const std::string& origin) : FilesTokenizer(std::move(files), origin) {
    const std::string path = base::join_path(origin, kSentencePieceFile);
    model_ = reading(path, [&] {
      return std::make_shared<const SentencePieceModel>(*find_file(*files_, kSentencePieceFile), path);
    });
    anchor_ = find_anchor();
    Settings settings = read_settings(*files_, origin, nullptr);
    add_tokens(settings);
    special_ = std::move(settings.special);
    templates_ = std::move(settings.chat_templates);
    if (settings.add_bos.value_or(false)) before_ = special_id(special_.bos);
    if (settings.add_eos.value_or(false)) behind_ = special_id(special_.eos);
  }

  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const override {
    std::string text;
    for_each_run(ids, [&](std::span<const int32_t> run, bool own) {
      text += own ? shown(run[0], skip_special_tokens) : model_->decode(run);
    });
    return base::replace_invalid_utf8(text);
  }
  std::string decode_bytes(std::span<const int32_t> ids, bool skip_special_tokens,
                           bool continues) const override {
    std::string text;
    for_each_run(ids, [&](std::span<const int32_t> run, bool own) {
      for (const int32_t id : run) {
        text += own ? shown(id, skip_special_tokens) : bytes_of(id, continues);
        continues = true;
      }
    });
    return text;
  }

  std::optional<int32_t> token_to_id(std::string_view token) const override {
    int32_t id = added_->id(token);
    if (id < 0) id = model_->find(token);
    return id < 0 ? std::nullopt : std::optional(id);
  }
  std::optional<std::string> id_to_token(int32_t id) const override {
    if (const AddedToken* token = added_->find(id)) return token->content;
    return id >= 0 && id < model_->size() ? std::optional(model_->piece(id)) : std::nullopt;
  }
  int64_t vocab_size() const override { return std::max(added_->end(), model_->size()); }
  std::string_view built_as() const override { return {}; }
  std::map<int32_t, AddedToken> added_tokens() const override { return added_->all(); }
  std::unique_ptr<Tokenizer> with(const Overrides& overrides) const override {
    for (const auto& [key, token] : {std::pair{"eos_token", &overrides.eos}, {"pad_token", &overrides.pad}})
      if (*token && !token_to_id(**token))
        fail_key(key, "{}: '{}' is not in the vocabulary of {}", key, **token, origin_);
    auto copy = std::make_unique<SentencePieceTokenizer>(*this);
    copy->take(overrides, added_tokens());
    copy->add_tokens(read_settings(*copy->files_, origin_, nullptr));
    return copy;
  }

 private:
  std::unique_ptr<Tokenizer> with_all(const std::map<int32_t, AddedToken>& all) const override {
    return std::make_unique<SentencePieceTokenizer>(with_listed(*files_, all), origin_);
  }

  void add_tokens(const Settings& settings) {
    auto tokens = std::make_shared<AddedTokens>();
    Vocabulary vocabulary;
    for (int32_t id = 0; id < model_->size(); ++id) vocabulary.add(model_->piece(id), id);
    const auto add = [&](AddedToken token) {
      token.normalized = false;  // the model normalizes by itself
      return tokens->add(token, vocabulary);
    };
    for (int32_t id = 0; find_file(*files_, "tokenizer_config.json") && id < model_->size(); ++id)
      if (model_->kind(id) == Kind::control) add({.content = model_->piece(id), .special = true});
    for (const auto& [id, token] : settings.added) {
      if (const int32_t own = add(token); own != id)
        fail(Status::format, "{}: '{}' has the id {}, but vocabulary and order give it {}",
             Place::in(base::join_path(origin_, "tokenizer_config.json")), token.content, id, own);
    }
    for (const auto* list : {&settings.named, &settings.extra})
      for (const AddedToken& token : *list) add(token);
    tokens->build({}, origin_);
    added_ = std::move(tokens);
  }

  Tokens run(std::string_view text, bool add_special_tokens, bool tracked,
             const ByteRanges& given) const override {
    check_text(text);
    Tokens tokens;
    tokens.tracked = tracked;
    const auto put = [&](int32_t id, Span span) {
      tokens.ids.push_back(id);
      if (tracked) tokens.spans.push_back(span);
    };
    const auto begin = [&](const Piece& piece) {
      return static_cast<uint32_t>(piece.text.data() - text.data());
    };
    if (add_special_tokens && before_) put(*before_, {});
    added_->split(
        {text}, false, given, [&](const Piece& piece) { model_->encode(piece.text, begin(piece), tokens); },
        [&](const Piece& piece, int32_t id) {
          put(id, {begin(piece), begin(piece) + static_cast<uint32_t>(piece.text.size())});
        });
    if (add_special_tokens && behind_) put(*behind_, {});
    return tokens;
  }

  // Tokens that the model cannot write as text are decoded one by one (own), the others together.
  template <typename Body>
  void for_each_run(std::span<const int32_t> ids, const Body& body) const {
    const auto own = [&](int32_t id) {
      return added_->find(id) != nullptr || id >= model_->size() || model_->kind(id) == Kind::control;
    };
    for (size_t begin = 0; begin < ids.size();) {
      if (ids[begin] < 0 || ids[begin] >= vocab_size())
        fail(Status::invalid_argument, "the token id {}: the vocabulary has the ids 0 to {}", ids[begin],
             vocab_size() - 1);
      size_t end = begin + 1;
      const bool alone = own(ids[begin]);
      while (!alone && end < ids.size() && ids[end] >= 0 && ids[end] < vocab_size() && !own(ids[end])) ++end;
      body(ids.subspan(begin, end - begin), alone);
      begin = end;
    }
  }

  std::string shown(int32_t id, bool skip_special_tokens) const {
    const AddedToken* token = added_->find(id);
    const bool special = token ? token->special : true;
    return skip_special_tokens && special ? std::string() : id_to_token(id).value_or(std::string());
  }

  // Finds a visible token after which others decode to their addition to a text: the space before a text is
  // gone.
  int32_t find_anchor() const {
    for (int32_t id = 0; id < model_->size(); ++id)
      if (model_->kind(id) == Kind::normal && !model_->decode({&id, 1}).empty()) return id;
    return 0;
  }

  std::string bytes_of(int32_t id, bool continues) const {
    if (model_->kind(id) == Kind::byte) {
      const std::string piece = model_->piece(id);  // <0x41>
      unsigned byte = 0;
      if (piece.size() == 6) std::from_chars(piece.data() + 3, piece.data() + 5, byte, 16);
      return std::string(1, static_cast<char>(byte));
    }
    if (!continues) return model_->decode({&id, 1});
    const int32_t pair[] = {anchor_, id};
    return model_->decode(pair).substr(model_->decode({&anchor_, 1}).size());
  }

  std::shared_ptr<const SentencePieceModel> model_;
  std::shared_ptr<const AddedTokens> added_;
  std::optional<int32_t> before_, behind_;
  int32_t anchor_ = 0;
};
}  // namespace

std::unique_ptr<Tokenizer> sentencepiece_tokenizer(Files files, const std::string& origin) {
  return std::make_unique<SentencePieceTokenizer>(std::move(files), origin);
}

}  // namespace trl::text
