// See open_tokenizer.h. io/ reads the GGUF file, text/ interprets a vocabulary; this joins them.
#include "data/tokenizer/open_tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/files/files.h"
#include "base/text/utf8.h"
#include "io/gguf.h"
#include "text/tokenizer/plain_vocabulary.h"

namespace trl::data {

namespace {

template <typename T>
T list_or_empty(const io::Gguf& file, std::string_view key) {
  const io::GgufValue* value = file.find(key);
  if (value == nullptr) return {};
  if (const T* list = std::get_if<T>(value)) return *list;
  fail(Status::format, "{}: {} has an unexpected type", Place::in(file.path()), key);
}

int32_t id_or_none(const io::Gguf& file, std::string_view key) {
  if (file.find(key) == nullptr) return -1;
  const int64_t id = file.integer(key);
  if (id < 0 || id > INT32_MAX)
    fail(Status::format, "{}: {} is {}, which is not a token id", Place::in(file.path()), key, id);
  return static_cast<int32_t>(id);
}

bool flag(const io::Gguf& file, std::string_view key, bool otherwise) {
  const io::GgufValue* value = file.find(key);
  if (value == nullptr) return otherwise;
  if (const bool* set = std::get_if<bool>(value)) return *set;
  fail(Status::format, "{}: {} is not a boolean", Place::in(file.path()), key);
}

// Checks for missing keys and takes them as llama.cpp does: merges must exist, all tokens without types are
// plain, and the pre-tokenizer is "default".
void check_vocabulary(const io::Gguf& file, const text::PlainVocabulary& vocabulary, base::LogSink& log) {
  constexpr std::string_view kMerges = "tokenizer.ggml.merges", kTypes = "tokenizer.ggml.token_type",
                             kPre = "tokenizer.ggml.pre";
  if (vocabulary.model != "gpt2" && vocabulary.model != "llama") return;  // refused by its name
  const bool scored = vocabulary.model == "llama";
  if (file.find(kMerges) == nullptr && !scored)
    fail(Status::format, "{}: {} is missing: a BPE without its merges splits all text into bytes",
         Place::in(file.path()), kMerges);
  if (file.find(kTypes) == nullptr)
    log.warning(
        "data",
        "{}: {} is missing: no token is special, and one that is written out in a text is read as text",
        file.path(), kTypes);
  if (file.find(kPre) == nullptr && !scored)
    log.warning("data",
                "{}: {} is missing: text is split by the rules of 'default', which may not be those that the "
                "model was trained with",
                file.path(), kPre);
}

std::unique_ptr<text::Tokenizer> from_gguf(const io::Gguf& file, base::LogSink& log) {
  file.need_model();
  text::PlainVocabulary vocabulary;
  vocabulary.model = file.text("tokenizer.ggml.model");
  if (file.find("tokenizer.ggml.pre") != nullptr) vocabulary.pre = file.text("tokenizer.ggml.pre");
  vocabulary.tokens = list_or_empty<std::vector<std::string>>(file, "tokenizer.ggml.tokens");
  vocabulary.merges = list_or_empty<std::vector<std::string>>(file, "tokenizer.ggml.merges");
  for (const int64_t type : list_or_empty<std::vector<int64_t>>(file, "tokenizer.ggml.token_type"))
    vocabulary.token_types.push_back(static_cast<int32_t>(type));
  for (const double score : list_or_empty<std::vector<double>>(file, "tokenizer.ggml.scores"))
    vocabulary.scores.push_back(static_cast<float>(score));
  if (file.find("general.architecture") != nullptr)
    vocabulary.architecture = file.text("general.architecture");
  vocabulary.bos = id_or_none(file, "tokenizer.ggml.bos_token_id");
  vocabulary.eos = id_or_none(file, "tokenizer.ggml.eos_token_id");
  vocabulary.unk = id_or_none(file, "tokenizer.ggml.unknown_token_id");
  vocabulary.pad = id_or_none(file, "tokenizer.ggml.padding_token_id");
  // Without the key a SentencePiece vocabulary has BOS, and others have none, as in transformers.
  vocabulary.add_bos = flag(file, "tokenizer.ggml.add_bos_token", vocabulary.model == "llama");
  vocabulary.add_eos = flag(file, "tokenizer.ggml.add_eos_token", false);
  vocabulary.add_space_prefix = flag(file, "tokenizer.ggml.add_space_prefix", true);
  if (file.find("tokenizer.chat_template") != nullptr)
    vocabulary.chat_templates["default"] = file.text("tokenizer.chat_template");
  for (const std::string& name : list_or_empty<std::vector<std::string>>(file, "tokenizer.chat_templates"))
    vocabulary.chat_templates[name] = file.text("tokenizer.chat_template." + name);
  check_vocabulary(file, vocabulary, log);
  return text::Tokenizer::from_vocabulary(vocabulary, file.path());
}

std::string read_template(const std::string& path) {
  std::string source = base::read_file(path);
  if (base::find_invalid_utf8(source) != base::kValid)
    fail(Status::format, "{}: invalid UTF-8 at byte {}", Place::in(path), base::find_invalid_utf8(source));
  return source;
}

constexpr const char* kKey = "chat_template_path";
constexpr int64_t kRowsMultiple = 64;

std::string template_of(const text::Tokenizer& source, const std::string& path) {
  const auto& templates = source.chat_templates();
  const auto found = templates.find("default");
  if (found != templates.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, text] : templates) names.push_back(name);
  fail_key(kKey, "{}: {}: {}", kKey, path,
           names.empty()
               ? "its tokenizer has no chat template that could be taken over"
               : fmt::format("its tokenizer has several chat templates ({}) and none is called default",
                             fmt::join(names, ", ")));
}

void pad(text::PlainVocabulary& v, int64_t rows, const std::string& origin) {
  if (std::ssize(v.tokens) > rows) {
    fail(Status::format,
         "{}: the tokenizer has {} tokens, the embedding has {} rows; GGUF needs a row for each token",
         Place::in(origin), v.tokens.size(), rows);
  }
  for (int64_t id = std::ssize(v.tokens); id < rows; ++id) {
    v.tokens.push_back(fmt::format("[PAD{}]", id));
    v.token_types.push_back(text::kUnused);
    if (!v.scores.empty()) v.scores.push_back(0);
  }
}

void add_chat_templates(io::GgufPairs& pairs, const std::map<std::string, std::string>& templates) {
  std::vector<std::string> names;
  for (const auto& [name, source] : templates) {
    if (name == "default") {
      pairs.add("tokenizer.chat_template", source);
    } else {
      names.push_back(name);
      pairs.add("tokenizer.chat_template." + name, source);
    }
  }
  if (!names.empty()) pairs.add("tokenizer.chat_templates", names);
}

}  // namespace

std::unique_ptr<text::Tokenizer> open_tokenizer(const io::ModelSource& model, base::LogSink* log) {
  const io::ModelForm form = model.form();
  if (form == io::ModelForm::directory || form == io::ModelForm::memory)
    return text::Tokenizer::from_files(model, log);
  if (form == io::ModelForm::none) {
    fail(Status::not_found, "{}: not found; give a local path: a model directory or a GGUF file",
         Place::in(model.path()));
  }
  if (form != io::ModelForm::gguf)
    fail(Status::format, "{}: neither a model directory nor a GGUF file", Place::in(model.path()));
  base::NullLog nobody;
  return from_gguf(*model.gguf(), log != nullptr ? *log : nobody);
}

std::unique_ptr<text::Tokenizer> training_tokenizer(const text::Tokenizer& tokenizer,
                                                    const config::DataArguments& arguments) {
  if (arguments.chat_template && arguments.chat_template_path)
    fail_key("chat_template_path", "chat_template_path: chat_template is given too; give one of them");
  text::Tokenizer::Overrides overrides;
  overrides.eos = arguments.eos_token;
  if (arguments.chat_template && arguments.chat_template->find_first_of("{}\n") == std::string::npos)
    fail_key("chat_template",
             "chat_template: {} is not a template, whose text has {{, }} or a line break; give a template's "
             "text, or "
             "a file's name as chat_template_path",
             *arguments.chat_template);
  overrides.chat_template = arguments.chat_template;
  const bool takes_over = names_template_model(arguments);
  if (arguments.chat_template_path && !takes_over)
    overrides.chat_template = read_template(*arguments.chat_template_path);
  auto made = tokenizer.with(overrides);
  if (takes_over) made = with_template_of(*arguments.chat_template_path, *made);
  const text::Tokenizer::Special& special = made->special();
  overrides = {.pad = arguments.pad_token ? arguments.pad_token
                      : special.pad       ? special.pad
                                          : special.eos,
               .split_special_tokens = arguments.split_special_tokens || tokenizer.splits_special_tokens()};
  if (!overrides.pad)
    fail_key("pad_token", "pad_token: the tokenizer has neither a pad token nor an EOS token; name one");
  return made->with(overrides);
}

bool names_template_model(const config::DataArguments& arguments) {
  const auto& path = arguments.chat_template_path;
  return path && !path->ends_with(".jinja") && !path->ends_with(".j2");
}

std::unique_ptr<text::Tokenizer> with_template_of(const io::ModelSource& model,
                                                  const text::Tokenizer& tokenizer) {
  if (model.form() == io::ModelForm::none) {
    throw Error(
        Status::not_found,
        fmt::format("{}: {} is not there; give a .jinja or .j2 file, a model directory or a GGUF file", kKey,
                    model.name()),
        kKey);
  }
  const auto source = open_tokenizer(model);
  if (!source->special().eos)
    fail_key(kKey, "{}: {}: its tokenizer has no EOS token that could be taken over", kKey, model.name());
  std::vector<text::AddedToken> added;
  for (const auto& [id, token] : source->added_tokens())
    if (!tokenizer.token_to_id(token.content)) added.push_back(token);
  const int64_t used = tokenizer.vocab_size() + static_cast<int64_t>(added.size());
  const int64_t rows = (used + kRowsMultiple - 1) / kRowsMultiple * kRowsMultiple;
  for (int64_t next = 0, left = rows - used; left > 0; ++next) {
    text::AddedToken filler;
    filler.content = fmt::format("<extra_id_{}>", next);
    const bool taken =
        std::ranges::any_of(added, [&](const auto& token) { return token.content == filler.content; });
    if (taken || tokenizer.token_to_id(filler.content)) continue;
    added.push_back(std::move(filler));
    --left;
  }
  text::Tokenizer::Overrides overrides;
  overrides.chat_template = template_of(*source, model.name());
  overrides.eos = source->special().eos;
  return tokenizer.with_added(added)->with(overrides);
}

io::GgufPairs gguf_vocabulary(const text::Tokenizer& tokenizer, int64_t rows, const std::string& origin,
                              base::LogSink* log) {
  text::PlainVocabulary v = text::export_vocabulary(tokenizer, origin, log);
  pad(v, rows, origin);
  io::GgufPairs pairs;
  pairs.add("tokenizer.ggml.model", v.model);
  pairs.add("tokenizer.ggml.pre", v.model == "gpt2" ? v.pre : "default");
  pairs.add("tokenizer.ggml.tokens", v.tokens);
  if (!v.scores.empty()) pairs.add("tokenizer.ggml.scores", v.scores);
  pairs.add("tokenizer.ggml.token_type", v.token_types);
  if (v.model == "gpt2" || !v.merges.empty()) pairs.add("tokenizer.ggml.merges", v.merges);
  const auto add_id = [&](const char* key, int32_t id) {
    if (id >= 0) pairs.add(key, static_cast<uint32_t>(id));
  };
  add_id("tokenizer.ggml.bos_token_id", v.bos);
  add_id("tokenizer.ggml.eos_token_id", v.eos);
  add_id("tokenizer.ggml.unknown_token_id", v.unk);
  add_id("tokenizer.ggml.padding_token_id", v.pad);
  pairs.add("tokenizer.ggml.add_bos_token", v.add_bos.value_or(false));
  pairs.add("tokenizer.ggml.add_eos_token", v.add_eos);
  if (v.model == "llama") pairs.add("tokenizer.ggml.add_space_prefix", v.add_space_prefix);
  add_chat_templates(pairs, v.chat_templates);
  return pairs;
}

}  // namespace trl::data
