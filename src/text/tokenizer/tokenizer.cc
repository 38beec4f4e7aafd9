// A Tokenizer is a pipeline, which copies share, and the few things that options may override.
#include "text/tokenizer/tokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/files.h"
#include "base/text/nearest.h"
#include "base/text/utf8.h"
#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/pipeline.h"
#include "text/tokenizer/plain_vocabulary.h"
#include "text/tokenizer/sentencepiece_tokenizer.h"
#include "text/tokenizer/settings.h"

namespace trl::text {

namespace {
class PipelineTokenizer final : public FilesTokenizer {
 public:
  // class_name: the chosen class of transformers; empty: tokenizer.json is used unchanged.
  PipelineTokenizer(Files files, const std::string& origin, const std::string& class_name, base::LogSink* log)
      : FilesTokenizer(std::move(files), origin) {
    const ClassRow* row = find_class_row(class_name);
    if (row) built_as_ = row->name;
    Settings settings = read_settings(*files_, origin, row);
    const std::string path = base::join_path(origin, "tokenizer.json");
    pipeline_ = reading(path, [&] {
      TokenizerJson json = read_tokenizer_json(*find_file(*files_, "tokenizer.json"), path);
      const std::string changed = row ? rebuild(json, *row, settings, path) : std::string();
      if (log && !changed.empty())
        log->warning("text", "{}: {} replaces steps of this file, as in transformers: {}", path, row->name,
                     changed);
      return std::make_shared<const Pipeline>(std::move(json), settings, path);
    });
    special_ = std::move(settings.special);
    templates_ = std::move(settings.chat_templates);
    if (!special_.pad && !settings.names_pad) special_.pad = pipeline_->padding_token();
  }

  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const override {
    return pipeline_->decode(ids, skip_special_tokens, {.lossy = true});
  }
  std::string decode_bytes(std::span<const int32_t> ids, bool skip_special_tokens,
                           bool continues) const override {
    return pipeline_->decode(ids, skip_special_tokens, {.continues = continues});
  }
  std::optional<int32_t> token_to_id(std::string_view token) const override {
    const int32_t id = pipeline_->token_to_id(token);
    return id < 0 ? std::nullopt : std::optional<int32_t>(id);
  }
  std::optional<std::string> id_to_token(int32_t id) const override { return pipeline_->id_to_token(id); }
  int64_t vocab_size() const override { return pipeline_->end(); }
  std::string_view built_as() const override { return built_as_; }

  std::unique_ptr<Tokenizer> with(const Overrides& overrides) const override {
    check("eos_token", overrides.eos);
    check("pad_token", overrides.pad);
    auto copy = std::make_unique<PipelineTokenizer>(*this);
    copy->take(overrides, pipeline_->names_new_tokens() ? added_tokens() : std::map<int32_t, AddedToken>());
    return copy;
  }

  std::map<int32_t, AddedToken> added_tokens() const override { return pipeline_->added().all(); }

 private:
  Tokens run(std::string_view text, bool add_special_tokens, bool tracked,
             const ByteRanges& given) const override {
    return pipeline_->encode(text, add_special_tokens, tracked, given);
  }
  std::unique_ptr<Tokenizer> with_all(const std::map<int32_t, AddedToken>& all) const override {
    Files files = *files_;
    for (auto& [name, bytes] : files)
      if (name == "tokenizer.json") bytes = with_added_tokens(bytes, all);
    return std::make_unique<PipelineTokenizer>(std::move(files), origin_, std::string(built_as_), nullptr);
  }
  void check(std::string_view key, const std::optional<std::string>& token) const {
    if (!token || token_to_id(*token)) return;
    const std::vector<std::string_view> added = pipeline_->added().contents();
    const std::string_view nearest = base::nearest(*token, added);
    fail_key(key, "{}: '{}' is not in the vocabulary of {}{}", key, *token, origin_,
             nearest.empty() ? std::string() : fmt::format("; '{}' is", nearest));
  }

  std::shared_ptr<const Pipeline> pipeline_;
  std::string_view built_as_;  // of a static table
};

// Returns the length of an unfinished character's beginning at the end of bytes; 0: none.
size_t unfinished(std::string_view bytes) {
  for (size_t back = 1; back <= std::min<size_t>(3, bytes.size()); ++back) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - back]);
    if (byte < 0x80) return 0;
    if (byte < 0xC0) continue;
    const size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    return length > back ? back : 0;
  }
  return 0;
}
}  // namespace

Encoding FilesTokenizer::encode_with_offsets(std::string_view text, bool add_special_tokens,
                                             const ByteRanges& given) const {
  Tokens tokens = run(text, add_special_tokens, true, given);
  Encoding encoding{std::move(tokens.ids), {}};
  encoding.offsets.reserve(tokens.spans.size());
  for (const Span& span : tokens.spans) encoding.offsets.emplace_back(span.begin, span.end);
  return encoding;
}

std::unique_ptr<Tokenizer> FilesTokenizer::with_added(std::span<const AddedToken> tokens) const {
  std::map<int32_t, AddedToken> all = added_tokens();
  auto next = static_cast<int32_t>(vocab_size());
  for (const AddedToken& token : tokens)
    if (!token_to_id(token.content)) all.emplace(next++, token);
  return with_all(all);
}

void FilesTokenizer::take(const Overrides& overrides, const std::map<int32_t, AddedToken>& added) {
  splits_ |= overrides.split_special_tokens;
  if (overrides.eos) special_.eos = overrides.eos;
  if (overrides.pad) special_.pad = overrides.pad;
  if (overrides.chat_template) templates_ = {{"default", *overrides.chat_template}};
  files_ = std::make_shared<const Files>(with_overrides(*files_, overrides, added));
}

std::unique_ptr<Tokenizer> Tokenizer::from_files(const base::NamedFiles& model, base::LogSink* log) {
  const std::string& origin = model.name();
  if (!model.in_memory() && !base::is_directory(origin))
    fail(Status::not_found, "{}: no such directory", Place::in(origin));
  const bool pieces = !model.has("tokenizer.json") && model.has(kSentencePieceFile);
  const char* const main = pieces ? kSentencePieceFile : "tokenizer.json";
  if (!model.has(main)) {
    if (!model.has("config.json"))
      fail(Status::not_found, "{}: is not a model directory: it has neither config.json nor tokenizer.json",
           Place::in(origin));
    fail(Status::not_found, "{}: no such file: a tokenizer is read from tokenizer.json or {}",
         Place::in(model.place(main)), kSentencePieceFile);
  }
  Files files;
  for (const char* name :
       {main, "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", kTemplate})
    if (model.has(name)) files.emplace_back(name, model.read(name));
  base::refuse_lfs_pointer(*find_file(files, main), model.place(main));
  if (log != nullptr && !find_file(files, "tokenizer_config.json")) {
    log->warning("tokenizer", "{}: there is no tokenizer_config.json: special tokens are those of {}{}",
                 origin, main, find_file(files, kTemplate) ? "" : ", and there is no chat template");
  }
  for (const std::string& file : model.names(kMoreTemplates)) {
    const std::string name = base::join_path(kMoreTemplates, file);
    if (file.ends_with(kTemplateEnding)) files.emplace_back(name, model.read(name));
  }
  if (pieces) return sentencepiece_tokenizer(std::move(files), origin);
  const std::string name = choose_class(files, model, log);
  return std::make_unique<PipelineTokenizer>(std::move(files), origin, name, log);
}

std::unique_ptr<Tokenizer> Tokenizer::from_vocabulary(const PlainVocabulary& vocabulary,
                                                      std::string_view origin) {
  return std::make_unique<PipelineTokenizer>(files_of(vocabulary, std::string(origin)), std::string(origin),
                                             "", nullptr);
}

std::map<std::string, std::string> Tokenizer::special_tokens_map() const {
  const Special& tokens = special();
  std::map<std::string, std::string> map = tokens.others;
  if (tokens.bos) map["bos_token"] = *tokens.bos;
  if (tokens.eos) map["eos_token"] = *tokens.eos;
  if (tokens.pad) map["pad_token"] = *tokens.pad;
  if (tokens.unk) map["unk_token"] = *tokens.unk;
  return map;
}

std::string DecodeStream::step(int32_t id) {
  const std::string piece = tokenizer_->decode_bytes({&id, 1}, skip_, true);
  if (!begun_) before_.push_back(id);
  if (piece.empty()) return {};
  if (begun_) {
    pending_ += piece;
  } else {
    pending_ = tokenizer_->decode_bytes(before_, skip_, false);
    begun_ = !pending_.empty();
  }
  std::string whole = pending_.substr(0, pending_.size() - unfinished(pending_));
  pending_.erase(0, whole.size());
  return base::replace_invalid_utf8(whole);
}

std::string DecodeStream::finish() {
  if (!begun_) pending_ = tokenizer_->decode_bytes(std::exchange(before_, {}), skip_, false);
  return base::replace_invalid_utf8(std::exchange(pending_, {}));
}

}  // namespace trl::text
