// For the model "gpt2", tokenizer.ggml.pre names the split patterns; "llama" is SentencePiece's BPE, whose
// scores order the merges. Token types tell which tokens are recognised in the text.
#include "text/tokenizer/plain_vocabulary.h"

#include <cmath>

#include "base/error.h"
#include "base/text/utf8.h"
#include "text/tokenizer/gguf_pre.h"
#include "text/tokenizer/score_merges.h"
#include "text/tokenizer/steps.h"
#include "text/tokenizer/vocabulary.h"

namespace trl::text {

namespace {
using base::Json;

bool is_scored(const PlainVocabulary& v) { return v.model == "llama"; }

void check(const PlainVocabulary& v, const std::string& origin) {
  if (v.model != "gpt2" && v.model != "llama")
    fail(Status::unsupported,
         "{}: tokenizer.ggml.model: '{}' is not read by this build; known are gpt2, llama", origin, v.model);
  if (v.tokens.empty()) fail(Status::format, "{}: tokenizer.ggml.tokens is missing or empty", origin);
  if (v.tokens.size() > static_cast<size_t>(kMaxTokenId) + 1)
    fail(Status::format, "{}: tokenizer.ggml.tokens: {} tokens: at most {} are read", origin, v.tokens.size(),
         kMaxTokenId + 1);
  if (!v.token_types.empty() && v.token_types.size() != v.tokens.size())
    fail(Status::format, "{}: tokenizer.ggml.token_type has {} entries for {} tokens", origin,
         v.token_types.size(), v.tokens.size());
  if (is_scored(v) && v.merges.empty() && v.scores.size() != v.tokens.size())
    fail(Status::format, "{}: tokenizer.ggml.scores has {} entries for {} tokens, and there are no merges",
         origin, v.scores.size(), v.tokens.size());
  for (size_t i = 0; i < v.scores.size(); ++i) {
    if (std::isnan(v.scores[i]))
      fail(Status::format, "{}: tokenizer.ggml.scores[{}] is not a number", origin, i);
  }
  const auto readable = [&](const std::vector<std::string>& list, const char* name) {
    for (size_t i = 0; i < list.size(); ++i) {
      if (base::find_invalid_utf8(list[i]) != base::kValid)
        fail(Status::format, "{}: {}[{}] is not valid UTF-8", origin, name, i);
    }
  };
  readable(v.tokens, "tokenizer.ggml.tokens");
  readable(v.merges, "tokenizer.ggml.merges");
}

// Returns the token with an id that the file gives, or nothing.
std::optional<std::string> token_of(const PlainVocabulary& v, int32_t id, const char* key,
                                    const std::string& origin) {
  if (id == -1) return std::nullopt;
  if (id < 0 || static_cast<size_t>(id) >= v.tokens.size())
    fail(Status::format, "{}: {}: {} is out of range: the vocabulary has {} tokens", origin, key, id,
         v.tokens.size());
  return v.tokens[static_cast<size_t>(id)];
}

Json added_tokens(const PlainVocabulary& v) {
  Json added = Json::array();
  for (size_t i = 0; i < v.token_types.size(); ++i) {
    const int32_t type = v.token_types[i];
    const bool special = type == kControl || (type == kUnknown && is_scored(v));
    if ((!special && type != kUserDefined) || v.tokens[i].empty()) continue;
    added.push_back({{"id", i},
                     {"content", v.tokens[i]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", special}});
  }
  return added;
}

Json post_processor(const PlainVocabulary& v, const std::optional<std::string>& bos,
                    const std::optional<std::string>& eos) {
  Json single = Json::array();
  Json pair = Json::array();
  Json specials = Json::object();
  const auto special = [&](const std::optional<std::string>& token, int32_t id) {
    if (!token) return;
    for (Json* list : {&single, &pair}) list->push_back({{"SpecialToken", {{"id", *token}, {"type_id", 0}}}});
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
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", specials}};
}

// Builds steps as transformers does: Phi-3 has its space before the text from a normalizer, others from
// Metaspace.
void put_scored_steps(const PlainVocabulary& v, Json& head) {
  const bool prepends = v.add_space_prefix && v.architecture == "phi3";
  Json normalizers = {{{"type", "Prepend"}, {"prepend", kSpaceMark}}, replace(" ", kSpaceMark)};
  head["normalizer"] = nullptr;
  head["pre_tokenizer"] = nullptr;
  if (prepends)
    head["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::move(normalizers)}};
  else
    head["pre_tokenizer"] = metaspace(v.add_space_prefix ? "first" : "never");
  head["decoder"] = mark_decoder(v.add_space_prefix);
}

void put_byte_steps(const GgufPre& pre, Json& head) {
  head["normalizer"] = pre.nfc ? Json{{"type", "NFC"}} : Json(nullptr);
  head["pre_tokenizer"] = pre_tokenizer_of(pre);
  head["decoder"] = byte_level(true);
}

// The long lists are written by hand: as a tree their keys would be compared with each other.
std::string merges_text(const PlainVocabulary& v) {
  std::string text;
  const auto add = [&](const std::string& merge) { text += (text.empty() ? "" : ",") + merge; };
  if (is_scored(v) && v.merges.empty()) {
    for (const auto& [left, right] : merges_of_scores(v.tokens, v.scores))
      add(fmt::format("[{},{}]", Json(left).dump(), Json(right).dump()));
  } else {
    for (const std::string& merge : v.merges) add(Json(merge).dump());
  }
  return text;
}

std::string with_model(const Json& head, const Json& model, const PlainVocabulary& v) {
  std::string text = head.dump();
  text.pop_back();
  text += ",\"model\":" + model.dump();
  text.pop_back();
  text += ",\"vocab\":{";
  for (size_t i = 0; i < v.tokens.size(); ++i)
    text += fmt::format("{}{}:{}", i ? "," : "", Json(v.tokens[i]).dump(), i);
  return text + "},\"merges\":[" + merges_text(v) + "]}}";
}

std::string tokenizer_json(const PlainVocabulary& v, const GgufPre& pre,
                           const std::optional<std::string>& bos, const std::optional<std::string>& eos) {
  Json head = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  head["added_tokens"] = added_tokens(v);
  head["post_processor"] = post_processor(v, bos, eos);
  is_scored(v) ? put_scored_steps(v, head) : put_byte_steps(pre, head);
  const Json model = {{"type", "BPE"},
                      {"dropout", nullptr},
                      {"unk_token", nullptr},
                      {"continuing_subword_prefix", nullptr},
                      {"end_of_word_suffix", nullptr},
                      {"fuse_unk", is_scored(v)},
                      {"byte_fallback", is_scored(v)},
                      {"ignore_merges", pre.ignore_merges}};
  return with_model(head, model, v);
}
}  // namespace

Files files_of(const PlainVocabulary& v, const std::string& origin) {
  check(v, origin);
  const GgufPre& pre = find_gguf_pre(is_scored(v) ? "" : v.pre, origin);
  const bool add_bos = v.add_bos.value_or(pre.add_bos || is_scored(v));
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
      fail(Status::format, "{}: tokenizer.chat_templates: '{}' is not a file name", origin, name);
    files.emplace_back(
        name == "default" ? kTemplate : fmt::format("{}/{}{}", kMoreTemplates, name, kTemplateEnding), text);
  }
  return files;
}

}  // namespace trl::text
