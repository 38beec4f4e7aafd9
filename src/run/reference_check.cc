#include "run/reference_check.h"

#include <algorithm>
#include <filesystem>

#include "adapter/config_file.h"
#include "base/error.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "data/tokenizer/open_tokenizer.h"
#include "io/gguf.h"
#include "io/safetensors.h"
#include "run/model_files.h"

namespace trl::run {

namespace {

constexpr std::string_view kReference = "ref_model_name_or_path";

bool brings_tokens(const std::string& given) {
  const std::string path = io::model_path(given);
  if (!io::is_gguf(path)) return has_tokenizer(path);
  return io::Gguf(path).find("tokenizer.ggml.tokens") != nullptr;
}

// Returns the token of an id, with spaces written as spaces. nullopt: no text makes it, like the filler
// tokens of a GGUF file's list.
std::optional<std::string> token_of(const text::Tokenizer& tokenizer, int32_t id) {
  constexpr std::string_view kMark = "\u2581";  // GGUF files have it in some tokens as a space
  std::optional<std::string> token = tokenizer.id_to_token(id);
  if (!token || *token == fmt::format("[PAD{}]", id)) return std::nullopt;
  for (size_t at = 0; (at = token->find(kMark, at)) != token->npos; ++at)
    token->replace(at, kMark.size(), 1, ' ');
  return token;
}

void refuse_classifier(const std::string& path) {
  if (!names_classifier(path)) return;
  const base::Json first =
      base::read_json_file(base::join_path(path, "config.json"))["architectures"].front();
  fail_key(kReference,
           "{}: {}: \"architectures\" begins with {}, a classifier, which gives no log-probabilities of "
           "tokens: give a language model",
           kReference, base::join_path(path, "config.json"), first.dump());
}

}  // namespace

void check_reference(const std::string& path) {
  if (!std::filesystem::exists(path)) {
    fail_key(kReference, "{}: {} does not exist: give a model directory or a GGUF file", kReference, path);
  }
  if (adapter::is_adapter(path)) {
    fail_key(
        kReference,
        "{}: {} is an adapter: give the directory of a whole model or a GGUF file; trl convert merges an "
        "adapter into its model",
        kReference, path);
  }
  refuse_classifier(path);
}

void check_reference_tokens(const std::string& path, const text::Tokenizer& trained) {
  if (!brings_tokens(path)) return;
  const auto own = data::open_tokenizer(path);
  const auto size = static_cast<int32_t>(std::min(own->vocab_size(), trained.vocab_size()));
  for (int32_t id = 0; id < size; ++id) {
    const auto theirs = token_of(*own, id), ours = token_of(trained, id);
    if (!theirs || !ours || *theirs == *ours) continue;
    fail_key(
        kReference,
        "{}: {} has another vocabulary than the model that is trained (token {} is {} there, and {} here): "
        "give a reference with the same tokenizer",
        kReference, path, id, base::Json(*own->id_to_token(id)).dump(),
        base::Json(*trained.id_to_token(id)).dump());
  }
}

}  // namespace trl::run
