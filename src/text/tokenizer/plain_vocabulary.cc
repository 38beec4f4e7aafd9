// tokenizer.ggml.pre names the split pattern; token types tell which tokens are recognised in the text.
#include "text/tokenizer/plain_vocabulary.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/nearest.h"
#include "base/utf8.h"
#include "text/tokenizer/class_row.h"
#include "text/tokenizer/steps.h"
#include "text/tokenizer/vocabulary.h"

namespace trl::text {

namespace {
using base::Json;

constexpr int32_t kControl = 3;
constexpr int32_t kUserDefined = 4;

// First what isolates: a digit, a pattern, or llama.cpp's four steps; then GPT-2's pattern where a row has
// none.
enum class NamedSplit { gpt2, digits, pattern, four_steps };

struct Pre {
  std::string_view name;
  NamedSplit split;
  const char* pattern = nullptr;
  bool nfc = false;
  bool ignore_merges = false;
  bool add_bos = false;  // when the file does not say
};

const Pre kPre[] = {
    {"default", NamedSplit::four_steps},
    {"gpt-2", NamedSplit::gpt2},
    {"mpt", NamedSplit::gpt2},
    {"olmo", NamedSplit::gpt2},
    {"phi-2", NamedSplit::gpt2},
    {"smollm", NamedSplit::digits},
    {"starcoder", NamedSplit::digits},
    {"refact", NamedSplit::digits},
    {"command-r", NamedSplit::digits},
    {"llama-bpe", NamedSplit::pattern, kLlama3Split, false, true, true},
    {"llama3", NamedSplit::pattern, kLlama3Split, false, true, true},
    {"llama-v3", NamedSplit::pattern, kLlama3Split, false, true, true},
    {"smaug-bpe", NamedSplit::pattern, kLlama3Split},
    {"dbrx", NamedSplit::pattern, kLlama3Split},
    {"qwen2", NamedSplit::pattern, kQwen2Split, true},
    {"deepseek-r1-qwen", NamedSplit::pattern, kQwen2Split, true},
    {"qwen35", NamedSplit::pattern, kQwen35Split, true},
};

const Pre& find_pre(const std::string& name, const std::string& origin) {
  std::vector<std::string_view> known;
  for (const Pre& pre : kPre) {
    if (pre.name == (name.empty() ? "default" : name)) return pre;
    known.push_back(pre.name);
  }
  fail(Status::unsupported,
       "{}: tokenizer.ggml.pre: the pre-tokenizer '{}' is not read by this build; known are {}", origin, name,
       base::join(known));
}

Json pre_tokenizer(const Pre& pre) {
  Json steps = Json::array();
  switch (pre.split) {
    case NamedSplit::gpt2:
      return byte_level(true);
    case NamedSplit::digits:
      steps = {digits(), byte_level(true)};
      break;
    case NamedSplit::pattern:
      steps = {isolate(pre.pattern), byte_level(false)};
      break;
    case NamedSplit::four_steps:
      steps = {isolate("[\\p{P}\\$\\+<=>\\^~\\|]+"),
               isolate("'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)"),
               isolate("\\p{N}+"), isolate("[0-9][0-9][0-9]"), byte_level(false)};
  }
  return pre_tokenizers(std::move(steps));
}

void check(const PlainVocabulary& v, const std::string& origin) {
  if (v.model != "gpt2")
    fail(Status::unsupported, "{}: tokenizer.ggml.model: '{}' is not read by this build; known is gpt2",
         origin, v.model);
  if (v.tokens.empty()) fail(Status::format, "{}: tokenizer.ggml.tokens is missing or empty", origin);
  if (v.tokens.size() > static_cast<size_t>(kMaxTokenId) + 1)
    fail(Status::format, "{}: tokenizer.ggml.tokens: {} tokens: at most {} are read", origin, v.tokens.size(),
         kMaxTokenId + 1);
  if (!v.token_types.empty() && v.token_types.size() != v.tokens.size())
    fail(Status::format, "{}: tokenizer.ggml.token_type has {} entries for {} tokens", origin,
         v.token_types.size(), v.tokens.size());
  const auto readable = [&](const std::vector<std::string>& list, const char* name) {
    for (size_t i = 0; i < list.size(); ++i) {
      if (base::find_invalid_utf8(list[i]) != base::kValid)
        fail(Status::format, "{}: {}[{}] is not valid UTF-8", origin, name, i);
    }
  };
  readable(v.tokens, "tokenizer.ggml.tokens");
  readable(v.merges, "tokenizer.ggml.merges");
}

// The token with an id that the file gives, or nothing.
std::optional<std::string> token_of(const PlainVocabulary& v, int32_t id, const char* key,
                                    const std::string& origin) {
  if (id == -1) return std::nullopt;
  if (id < 0 || static_cast<size_t>(id) >= v.tokens.size())
    fail(Status::format, "{}: {}: {} is out of range: the vocabulary has {} tokens", origin, key, id,
         v.tokens.size());
  return v.tokens[static_cast<size_t>(id)];
}

std::string tokenizer_json(const PlainVocabulary& v, const Pre& pre, const std::optional<std::string>& bos,
                           const std::optional<std::string>& eos) {
  Json added = Json::array();
  for (size_t i = 0; i < v.token_types.size(); ++i) {
    const bool control = v.token_types[i] == kControl;
    if ((!control && v.token_types[i] != kUserDefined) || v.tokens[i].empty()) continue;
    added.push_back({{"id", i},
                     {"content", v.tokens[i]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", control}});
  }
  Json single = Json::array();
  Json pair = Json::array();
  Json specials = Json::object();
  const auto special = [&](const std::optional<std::string>& token, int32_t id) {
    if (!token) return;
    for (int type = 0; type < 2; ++type)
      (type == 0 ? single : pair).push_back({{"SpecialToken", {{"id", *token}, {"type_id", 0}}}});
    specials[*token] = {{"id", *token}, {"ids", {id}}, {"tokens", {*token}}};
  };
  const auto sequence = [](const char* id, int type) -> Json {
    return {{"Sequence", {{"id", id}, {"type_id", type}}}};
  };
  special(bos, v.bos);
  single.push_back(sequence("A", 0));
  pair.push_back(sequence("A", 0));
  pair.push_back(sequence("B", 1));
  special(eos, v.eos);

  Json head = {
      {"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}, {"added_tokens", std::move(added)}};
  head["normalizer"] = pre.nfc ? Json{{"type", "NFC"}} : Json(nullptr);
  head["pre_tokenizer"] = pre_tokenizer(pre);
  head["post_processor"] = {
      {"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", specials}};
  head["decoder"] = byte_level(true);
  Json model = {{"type", "BPE"},
                {"dropout", nullptr},
                {"unk_token", nullptr},
                {"continuing_subword_prefix", nullptr},
                {"end_of_word_suffix", nullptr},
                {"fuse_unk", false},
                {"byte_fallback", false},
                {"ignore_merges", pre.ignore_merges}};
  // The long lists are written by hand: as a tree their keys would be compared with each other.
  std::string text = head.dump();
  text.pop_back();
  text += ",\"model\":" + model.dump();
  text.pop_back();
  text += ",\"vocab\":{";
  for (size_t i = 0; i < v.tokens.size(); ++i)
    text += fmt::format("{}{}:{}", i ? "," : "", Json(v.tokens[i]).dump(), i);
  text += "},\"merges\":[";
  for (size_t i = 0; i < v.merges.size(); ++i) text += (i ? "," : "") + Json(v.merges[i]).dump();
  return text + "]}}";
}
}  // namespace

Files files_of(const PlainVocabulary& v, const std::string& origin) {
  check(v, origin);
  const Pre& pre = find_pre(v.pre, origin);
  const bool add_bos = v.add_bos.value_or(pre.add_bos);
  const auto bos = token_of(v, v.bos, "tokenizer.ggml.bos_token_id", origin);
  const auto eos = token_of(v, v.eos, "tokenizer.ggml.eos_token_id", origin);
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  if (bos) config["bos_token"] = *bos;
  if (eos) config["eos_token"] = *eos;
  if (const auto pad = token_of(v, v.pad, "tokenizer.ggml.padding_token_id", origin))
    config["pad_token"] = *pad;
  if (const auto unk = token_of(v, v.unk, "tokenizer.ggml.unknown_token_id", origin))
    config["unk_token"] = *unk;
  Files files;
  files.emplace_back("tokenizer.json",
                     tokenizer_json(v, pre, add_bos ? bos : std::nullopt, v.add_eos ? eos : std::nullopt));
  files.emplace_back("tokenizer_config.json", config.dump(2) + "\n");
  for (const auto& [name, text] : v.chat_templates) {
    if (name.find('/') != std::string::npos)
      fail(Status::format, "{}: tokenizer.chat_templates: '{}' is no name of a file", origin, name);
    files.emplace_back(
        name == "default" ? kTemplate : fmt::format("{}/{}{}", kMoreTemplates, name, kTemplateEnding), text);
  }
  return files;
}

}  // namespace trl::text
