// See open_tokenizer.h. io/ reads the GGUF file, text/ interprets a vocabulary; this joins them.
#include "data/tokenizer/open_tokenizer.h"

#include <utility>

#include "base/error.h"
#include "base/files/files.h"
#include "base/text/utf8.h"
#include "data/tokenizer/template_model.h"
#include "io/gguf.h"
#include "io/safetensors.h"

namespace trl::data {

namespace {

template <typename T>
T list_or_empty(const io::Gguf& file, std::string_view key) {
  const io::GgufValue* value = file.find(key);
  if (value == nullptr) return {};
  if (const T* list = std::get_if<T>(value)) return *list;
  fail(Status::format, "{}: {} has an unexpected type", file.path(), key);
}

int32_t id_or_none(const io::Gguf& file, std::string_view key) {
  if (file.find(key) == nullptr) return -1;
  const int64_t id = file.integer(key);
  if (id < 0 || id > INT32_MAX)
    fail(Status::format, "{}: {} is {}, which is not a token id", file.path(), key, id);
  return static_cast<int32_t>(id);
}

bool flag(const io::Gguf& file, std::string_view key, bool otherwise) {
  const io::GgufValue* value = file.find(key);
  if (value == nullptr) return otherwise;
  if (const bool* set = std::get_if<bool>(value)) return *set;
  fail(Status::format, "{}: {} is not a boolean", file.path(), key);
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
         file.path(), kMerges);
  if (file.find(kTypes) == nullptr)
    log.warning(
        "data",
        "{}: {} is missing: no token is special, and one that is written out in a text is read as text",
        file.path(), kTypes);
  if (file.find(kPre) == nullptr && !scored)
    log.warning("data",
                "{}: {} is missing: text is split by the rules of 'default', which may not be those that the "
                "model was "
                "trained with",
                file.path(), kPre);
}

std::unique_ptr<text::Tokenizer> from_gguf(const std::string& path, base::LogSink& log) {
  const io::Gguf file(path);
  file.need_model();
  text::PlainVocabulary vocabulary;
  vocabulary.model = file.text("tokenizer.ggml.model");
  if (file.find("tokenizer.ggml.pre") != nullptr) vocabulary.pre = file.text("tokenizer.ggml.pre");
  vocabulary.tokens = list_or_empty<std::vector<std::string>>(file, "tokenizer.ggml.tokens");
  vocabulary.merges = list_or_empty<std::vector<std::string>>(file, "tokenizer.ggml.merges");
  for (const int64_t type : list_or_empty<std::vector<int64_t>>(file, "tokenizer.ggml.token_type")) {
    vocabulary.token_types.push_back(static_cast<int32_t>(type));
  }
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
  return text::Tokenizer::from_vocabulary(vocabulary, path);
}

std::string read_template(const std::string& path) {
  std::string source = base::read_file(path);
  if (base::find_invalid_utf8(source) != base::kValid) {
    fail(Status::format, "{}: invalid UTF-8 at byte {}", path, base::find_invalid_utf8(source));
  }
  return source;
}

}  // namespace

std::unique_ptr<text::Tokenizer> open_tokenizer(const std::string& given, base::LogSink* log) {
  const std::string model_path = io::model_path(given);
  if (base::is_directory(model_path)) return text::Tokenizer::from_directory(model_path, log);
  if (!base::file_exists(model_path)) {
    fail(Status::not_found, "{}: not found; give a local path: a model directory or a GGUF file", model_path);
  }
  if (!io::is_gguf(model_path)) {
    fail(Status::format, "{}: neither a model directory nor a GGUF file", model_path);
  }
  base::NullLog nobody;
  return from_gguf(model_path, log != nullptr ? *log : nobody);
}

std::unique_ptr<text::Tokenizer> training_tokenizer(const text::Tokenizer& tokenizer,
                                                    const config::DataArguments& arguments) {
  if (arguments.chat_template && arguments.chat_template_path) {
    fail_key("chat_template_path", "chat_template_path: chat_template is given too; give one of them");
  }
  text::Tokenizer::Overrides overrides;
  overrides.eos = arguments.eos_token;
  overrides.chat_template = arguments.chat_template;
  const bool takes_over = names_template_model(arguments);
  if (arguments.chat_template_path && !takes_over)
    overrides.chat_template = read_template(*arguments.chat_template_path);
  auto made = tokenizer.with(overrides);
  if (takes_over) made = with_template_of(*arguments.chat_template_path, *made);
  const text::Tokenizer::Special& special = made->special();
  overrides = {.pad = arguments.pad_token ? arguments.pad_token : special.pad ? special.pad : special.eos};
  if (!overrides.pad)
    fail_key("pad_token", "pad_token: the tokenizer has neither a pad token nor an EOS token; name one");
  return made->with(overrides);
}

}  // namespace trl::data
