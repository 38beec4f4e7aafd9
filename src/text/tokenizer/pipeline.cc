#include "text/tokenizer/pipeline.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/text/utf8.h"

namespace trl::text {

namespace {
constexpr uint32_t kWordsPerPoll = 1024;

AddedToken plain_special(const std::string& content) {
  AddedToken token;
  token.content = content;
  token.normalized = false;
  token.special = true;
  return token;
}
}  // namespace

Pipeline::Pipeline(TokenizerJson json, const Settings& settings, const std::string& origin) {
  const Field root(json.rest, origin);
  model_ = read_model(root, json);
  if (const auto field = root.find("normalizer")) normalizers_ = Normalizers(*field);
  if (const auto field = root.find("pre_tokenizer")) pre_tokenizers_ = PreTokenizers(*field);
  if (const auto field = root.find("decoder")) decoders_ = Decoders(*field);
  if (const auto field = root.find("padding")) padding_token_ = field->at("pad_token").text();
  read_added(root);
  file_end_ = end();
  add_named(settings);
  added_.build(normalizers_, origin);
  if (settings.around) {
    const auto id = [&](const std::optional<std::string>& token) {
      return token ? std::optional(added_.id(*token)) : std::nullopt;
    };
    post_processor_ = PostProcessor(id(settings.around->before), id(settings.around->after));
  } else if (const auto field = root.find("post_processor")) {
    post_processor_ = PostProcessor(*field, end());
  }
}

void Pipeline::read_added(const Field& root) {
  const auto list = root.find("added_tokens");
  if (!list) return;
  for (const Field& item : list->list()) {
    const AddedToken token = read_added_token(item);
    const int64_t stated = item.at("id").integer(0, kMaxTokenId);
    if (token.content.empty()) continue;
    const int32_t id = added_.add(token, model_->vocabulary());
    if (id != stated)
      fail(Status::format, "{}: '{}' has the id {}, but vocabulary and order give it {}", item.where(),
           token.content, stated, id);
  }
}

// Adds named tokens as transformers does: listed tokens have the flags that added_tokens_decoder gives them,
// but a special one stays special; tokens that the configuration names become special, unless there is an
// added_tokens_decoder and only tokenizer.json has them.
void Pipeline::add_named(const Settings& settings) {
  const auto add = [&](const AddedToken& token) {
    if (!token.content.empty()) added_.add(token, model_->vocabulary());
  };
  std::vector<const AddedToken*> listed;
  for (const auto& [id, token] : settings.added)
    if (!(settings.added_yields && added_.find(id))) listed.push_back(&token);
  for (const AddedToken* item : listed) {
    const AddedToken* known = added_.find(item->content);
    if (known && !settings.lists_added) continue;
    AddedToken token = *item;
    token.special |= known && known->special;
    add(token);
  }
  std::unordered_set<std::string_view> contents;
  for (const AddedToken* item : listed) contents.insert(item->content);
  for (const AddedToken& named : settings.named) {
    const AddedToken* known = added_.find(named.content);
    AddedToken token = known ? *known : named;
    token.special |= !known || !settings.lists_added || contents.contains(named.content);
    add(settings.plain == Plain::all ? plain_special(named.content) : token);
  }
  for (const AddedToken& token : settings.extra)
    if (settings.plain != Plain::none)
      add(plain_special(token.content));
    else if (!added_.find(token.content))
      add(token);
}

Tokens Pipeline::encode(std::string_view text, bool add_special_tokens, bool tracked,
                        const ByteRanges& given) const {
  check_text(text);
  tracked |= !given.empty();  // a normalized text is given where its origin is
  MatchSpace space;
  const std::unique_ptr<ModelSpace> word_space = model_->space();
  std::vector<Buffer> normal(normalizers_.size());
  std::vector<Buffer> words(pre_tokenizers_.size());
  std::vector<Span> spans;
  if (tracked) {
    spans.reserve(text.size());
    for (size_t at = 0; at < text.size();) {
      const auto begin = static_cast<uint32_t>(at);
      base::next_code_point(text, at);
      spans.resize(at, {begin, static_cast<uint32_t>(at)});
    }
  }
  size_t first = 0;  // the end of the first character
  if (!text.empty()) base::next_code_point(text, first);
  Tokens tokens;
  tokens.tracked = tracked;
  uint32_t word_count = 0;
  const auto word = [&](const Piece& piece) {
    if (++word_count % kWordsPerPoll == 0) base::poll();
    model_->tokenize(piece, *word_space, tokens);
  };
  std::unordered_map<size_t, std::string> found_texts;  // by index in tokens
  const auto found = [&](const Piece& piece, int32_t id) {
    if (tracked) found_texts.emplace(tokens.ids.size(), piece.text);
    tokens.add(id, piece);
  };
  const auto normalized = [&](const Piece& piece) { pre_tokenizers_.run(piece, words, space, word); };
  const auto plain = [&](const Piece& piece) {
    added_.split(normalizers_.run(piece, normal, space), true, given, normalized, found);
  };
  added_.split({text, tracked ? spans.data() : nullptr, first}, false, given, plain, found);
  post_processor_.run(tokens, text, add_special_tokens, [&](size_t index) -> std::string_view {
    const auto text_found = found_texts.find(index);
    if (text_found != found_texts.end()) return text_found->second;
    return model_->vocabulary().token(tokens.ids[index]).value_or(std::string_view());
  });
  return tokens;
}

std::string Pipeline::decode(std::span<const int32_t> ids, bool skip_special_tokens, DecodeMode mode) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const int32_t id : ids) {
    if (id < 0 || id >= end())
      fail(Status::invalid_argument, "the token id {}: the vocabulary has the ids 0 to {}", id, end() - 1);
    if (const auto added = added_.decoded(id)) {
      if (!(skip_special_tokens && added->skipped)) tokens.emplace_back(added->text);
    } else if (const auto token = model_->vocabulary().token(id)) {
      tokens.emplace_back(*token);
    }
  }
  return decoders_.run(std::move(tokens), mode);
}

int32_t Pipeline::token_to_id(std::string_view token) const {
  const int32_t id = added_.id(token);
  return id >= 0 ? id : model_->vocabulary().find(token);
}

std::optional<std::string> Pipeline::id_to_token(int32_t id) const {
  if (const AddedToken* added = added_.find(id)) return added->content;
  const auto token = model_->vocabulary().token(id);
  return token ? std::optional<std::string>(*token) : std::nullopt;
}

int32_t Pipeline::end() const { return std::max(added_.end(), model_->vocabulary().end()); }

}  // namespace trl::text
