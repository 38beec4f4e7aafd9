// A Tokenizer is a pipeline, which copies share, and the few things that options may override.
#include "text/tokenizer/tokenizer.h"

#include "base/error.h"
#include "base/files/files.h"
#include "base/text/nearest.h"
#include "text/tokenizer/added_tokens_json.h"
#include "text/tokenizer/class_choice.h"
#include "text/tokenizer/pipeline.h"
#include "text/tokenizer/plain_vocabulary.h"
#include "text/tokenizer/rebuild.h"
#include "text/tokenizer/sentencepiece_tokenizer.h"
#include "text/tokenizer/settings.h"

namespace trl::text {

namespace {
class PipelineTokenizer final : public Tokenizer {
 public:
  // class_name: the chosen class of transformers; empty: tokenizer.json is used unchanged.
  PipelineTokenizer(Files files, const std::string& origin, const std::string& class_name, base::LogSink* log)
      : files_(std::make_shared<const Files>(std::move(files))), origin_(origin) {
    const ClassRow* row = find_class_row(class_name);
    if (row) built_as_ = row->name;
    Settings settings = read_settings(*files_, origin, row);
    const std::string path = base::join_path(origin, "tokenizer.json");
    TokenizerJson json = read_tokenizer_json(*find_file(*files_, "tokenizer.json"), path);
    const std::string changed = row ? rebuild(json, *row, settings, path) : std::string();
    if (log && !changed.empty())
      log->warning("text", "{}: {} replaces steps of this file, as in transformers: {}", path, row->name,
                   changed);
    pipeline_ = std::make_shared<const Pipeline>(std::move(json), settings, path);
    special_ = std::move(settings.special);
    templates_ = std::move(settings.chat_templates);
    if (!special_.pad && !settings.names_pad) special_.pad = pipeline_->padding_token();
  }

  std::vector<int32_t> encode(std::string_view text, bool add_special_tokens) const override {
    return pipeline_->encode(text, add_special_tokens, false).ids;
  }
  Encoding encode_with_offsets(std::string_view text, bool add_special_tokens) const override {
    Tokens tokens = pipeline_->encode(text, add_special_tokens, true);
    Encoding encoding;
    encoding.ids = std::move(tokens.ids);
    encoding.offsets.reserve(tokens.spans.size());
    for (const Span& span : tokens.spans) encoding.offsets.emplace_back(span.begin, span.end);
    return encoding;
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
  const Special& special() const override { return special_; }
  const std::map<std::string, std::string>& chat_templates() const override { return templates_; }

  std::unique_ptr<Tokenizer> with(const Overrides& overrides) const override {
    check("eos_token", overrides.eos);
    check("pad_token", overrides.pad);
    auto copy = std::make_unique<PipelineTokenizer>(*this);
    if (overrides.eos) copy->special_.eos = overrides.eos;
    if (overrides.pad) copy->special_.pad = overrides.pad;
    if (overrides.chat_template) copy->templates_ = {{"default", *overrides.chat_template}};
    std::map<int32_t, AddedToken> added;
    if (pipeline_->names_new_tokens()) added = pipeline_->added().all();
    copy->files_ = std::make_shared<const Files>(with_overrides(*files_, overrides, added));
    return copy;
  }

  std::map<int32_t, AddedToken> added_tokens() const override { return pipeline_->added().all(); }

  std::unique_ptr<Tokenizer> with_added(std::span<const AddedToken> tokens) const override {
    std::map<int32_t, AddedToken> all = added_tokens();
    int32_t next = pipeline_->end();
    for (const AddedToken& token : tokens) {
      if (!token_to_id(token.content)) all.emplace(next++, token);
    }
    Files files = *files_;
    for (auto& [name, bytes] : files) {
      if (name == "tokenizer.json") bytes = with_added_tokens(bytes, all);
    }
    return std::make_unique<PipelineTokenizer>(std::move(files), origin_, std::string(built_as_), nullptr);
  }

  Files files() const override { return *files_; }

 private:
  void check(std::string_view key, const std::optional<std::string>& token) const {
    if (!token || token_to_id(*token)) return;
    const std::vector<std::string_view> added = pipeline_->added().contents();
    const std::string_view nearest = base::nearest(*token, added);
    fail_key(key, "{}: '{}' is not in the vocabulary of {}{}", key, *token, origin_,
             nearest.empty() ? std::string() : fmt::format("; '{}' is", nearest));
  }

  std::shared_ptr<const Pipeline> pipeline_;
  std::shared_ptr<const Files> files_;
  std::string origin_;
  std::string_view built_as_;  // of a static table
  Special special_;
  std::map<std::string, std::string> templates_;
};
}  // namespace

std::unique_ptr<Tokenizer> Tokenizer::from_directory(const std::string& path, base::LogSink* log) {
  const auto in = [&](const char* name) { return base::join_path(path, name); };
  if (!base::is_directory(path)) fail(Status::not_found, "{}: no such directory", path);
  const bool pieces = !base::file_exists(in("tokenizer.json")) && base::file_exists(in(kSentencePieceFile));
  const char* const main = pieces ? kSentencePieceFile : "tokenizer.json";
  if (!base::file_exists(in(main))) {
    if (!base::file_exists(in("config.json")))
      fail(Status::not_found, "{}: is not a model directory: it has neither config.json nor tokenizer.json",
           path);
    fail(Status::not_found, "{}: no such file: a tokenizer is read from tokenizer.json or {}", in(main),
         kSentencePieceFile);
  }
  Files files;
  for (const char* name :
       {main, "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", kTemplate}) {
    if (base::file_exists(in(name))) files.emplace_back(name, base::read_file(in(name)));
  }
  base::refuse_lfs_pointer(*find_file(files, main), in(main));
  if (log != nullptr && !find_file(files, "tokenizer_config.json")) {
    log->warning("tokenizer", "{}: there is no tokenizer_config.json: special tokens are those of {}{}", path,
                 main, find_file(files, kTemplate) ? "" : ", and there is no chat template");
  }
  if (base::is_directory(in(kMoreTemplates))) {
    for (const std::string& file : base::list_directory(in(kMoreTemplates))) {
      const std::string name = base::join_path(kMoreTemplates, file);
      if (file.ends_with(kTemplateEnding)) files.emplace_back(name, base::read_file(in(name.c_str())));
    }
  }
  if (pieces) return sentencepiece_tokenizer(std::move(files), path);
  const std::string name = choose_class(files, path, log);
  return std::make_unique<PipelineTokenizer>(std::move(files), path, name, log);
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

}  // namespace trl::text
