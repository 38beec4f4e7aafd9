// For the model "gpt2", tokenizer.ggml.pre names the split patterns; "llama" is SentencePiece's BPE, whose
// scores order the merges. Token types tell which tokens are recognised in the text.
#include "text/tokenizer/plain_vocabulary.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <tuple>
#include <unordered_set>

#include "base/error.h"
#include "base/text/nearest.h"
#include "base/text/utf8.h"
#include "text/tokenizer/steps.h"
#include "text/tokenizer/vocabulary.h"

namespace trl::text {

namespace {
// Facts from llama.cpp's llama-vocab.cpp; text that its patterns do not match forms its own words.
constexpr const char* kGpt2Words =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)";
constexpr const char* kLines = "[\r\n]";
constexpr const char* kEastAsian = "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+";
constexpr const char* kThreeDigits = "[0-9][0-9][0-9]";
// Letters with an upper and a lower case.
constexpr const char* kCasedWords =
    "\\s?[A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}\\x{"
    "295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}"
    "\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}"
    "\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}\\x{1D6B}"
    "-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{"
    "1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{"
    "1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{"
    "1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{"
    "211D}\\x{2124}\\x{2126}\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}\\x{"
    "2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}\\x{"
    "2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}\\x{A771}-\\x{A787}\\x{A78B}-\\x{"
    "A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{"
    "10400}-\\x{1044F}\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}"
    "\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}]+";
constexpr const char* kMarks =
    "\\s?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+";

// Words of capitals, then small letters; those of Mistral's Tekken, and of o200k with its contractions.
#define TRL_BEFORE "[^\\r\\n\\p{L}\\p{N}]?"
#define TRL_LARGE "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define TRL_SMALL "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define TRL_WORDS(end) \
  TRL_BEFORE TRL_LARGE "*" TRL_SMALL "+" end "|" TRL_BEFORE TRL_LARGE "+" TRL_SMALL "*" end
#define TRL_REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
constexpr const char* kTekkenSplit = TRL_WORDS("") "|\\p{N}" TRL_REST;
constexpr const char* kO200kSplit = TRL_WORDS("(?i:'s|'t|'re|'ve|'m|'ll|'d)?") "|\\p{N}{1,3}" TRL_REST;
#undef TRL_REST
#undef TRL_SMALL
#undef TRL_LARGE
// Patterns of Kimi K2: runs of Han are separate.
#define TRL_LARGE "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define TRL_SMALL "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
constexpr const char* kKimiSplit =
    "[\\p{Han}]+|" TRL_WORDS("(?i:'s|'t|'re|'ve|'m|'ll|'d)?") "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
#undef TRL_WORDS
#undef TRL_SMALL
#undef TRL_LARGE
#undef TRL_BEFORE

const GgufPre kPre[] = {
    {.name = "default", .split = {"[\\p{P}\\$\\+<=>\\^~\\|]+", kGpt2Words, "\\p{N}+", kThreeDigits}},
    {.name = "gpt-2", .gpt2 = true},
    {.name = "mpt", .gpt2 = true},
    {.name = "olmo", .gpt2 = true},
    {.name = "phi-2", .gpt2 = true},
    {.name = "smollm", .digits = true, .gpt2 = true},
    {.name = "starcoder", .digits = true, .gpt2 = true},
    {.name = "refact", .digits = true, .gpt2 = true},
    {.name = "command-r", .digits = true, .gpt2 = true},
    {.name = "llama-bpe", .split = {kLlama3Split}, .ignore_merges = true, .add_bos = true},
    {.name = "llama3", .split = {kLlama3Split}, .ignore_merges = true, .add_bos = true},
    {.name = "llama-v3", .split = {kLlama3Split}, .ignore_merges = true, .add_bos = true},
    {.name = "smaug-bpe", .split = {kLlama3Split}},
    {.name = "dbrx", .split = {kLlama3Split}},
    {.name = "gpt-4o", .split = {kO200kSplit}},
    {.name = "llama4", .split = {kO200kSplit}},
    {.name = "kimi-k2", .split = {kKimiSplit}},
    {.name = "tekken", .split = {kTekkenSplit}, .ignore_merges = true, .add_bos = true},
    {.name = "stablelm2", .split = {kQwen2Split}},
    {.name = "qwen2", .split = {kQwen2Split}, .nfc = true},
    {.name = "deepseek-r1-qwen", .split = {kQwen2Split}, .nfc = true},
    {.name = "qwen35", .split = {kQwen35Split}, .nfc = true},
    {.name = "deepseek-llm", .split = {kLines, kCasedWords, kMarks, "\\s+$", kEastAsian, "\\p{N}+"}},
    {.name = "deepseek-coder", .split = {kLines, "\\s?\\p{L}+", "\\s?\\p{P}+", kEastAsian, "\\p{N}"}},
    {.name = "falcon", .split = {"[\\p{P}\\$\\+<=>\\^~\\|`]+", kGpt2Words, kThreeDigits}},
};

using base::Json;

bool is_scored(const PlainVocabulary& v) { return v.model == "llama"; }

void check(const PlainVocabulary& v, const std::string& origin) {
  if (v.model != "gpt2" && v.model != "llama")
    fail(Status::unsupported,
         "{}: tokenizer.ggml.model: '{}' is not read by this build; known are gpt2, llama", Place::in(origin),
         v.model);
  if (v.tokens.empty())
    fail(Status::format, "{}: tokenizer.ggml.tokens is missing or empty", Place::in(origin));
  if (v.tokens.size() > static_cast<size_t>(kMaxTokenId) + 1)
    fail(Status::format, "{}: tokenizer.ggml.tokens: {} tokens: at most {} are read", Place::in(origin),
         v.tokens.size(), kMaxTokenId + 1);
  if (!v.token_types.empty() && v.token_types.size() != v.tokens.size())
    fail(Status::format, "{}: tokenizer.ggml.token_type has {} entries for {} tokens", Place::in(origin),
         v.token_types.size(), v.tokens.size());
  if (is_scored(v) && v.merges.empty() && v.scores.size() != v.tokens.size())
    fail(Status::format, "{}: tokenizer.ggml.scores has {} entries for {} tokens, and there are no merges",
         Place::in(origin), v.scores.size(), v.tokens.size());
  for (size_t i = 0; i < v.scores.size(); ++i)
    if (std::isnan(v.scores[i]))
      fail(Status::format, "{}: tokenizer.ggml.scores[{}] is not a number", Place::in(origin), i);
  const auto readable = [&](const std::vector<std::string>& list, const char* name) {
    for (size_t i = 0; i < list.size(); ++i)
      if (base::find_invalid_utf8(list[i]) != base::kValid)
        fail(Status::format, "{}: {}[{}] is not valid UTF-8", Place::in(origin), name, i);
  };
  readable(v.tokens, "tokenizer.ggml.tokens");
  readable(v.merges, "tokenizer.ggml.merges");
}

// Returns the token with an id that the file gives, or nothing.
std::optional<std::string> token_of(const PlainVocabulary& v, int32_t id, const char* key,
                                    const std::string& origin) {
  if (id == -1) return std::nullopt;
  if (id < 0 || static_cast<size_t>(id) >= v.tokens.size())
    fail(Status::format, "{}: {}: {} is out of range: the vocabulary has {} tokens", Place::in(origin), key,
         id, v.tokens.size());
  return v.tokens[static_cast<size_t>(id)];
}

Json added_tokens(const PlainVocabulary& v) {
  Json added = Json::array();
  for (size_t i = 0; i < v.token_types.size(); ++i) {
    const int32_t type = v.token_types[i];
    const bool special = type == kControl || (type == kUnknown && is_scored(v));
    if ((!special && type != kUserDefined) || v.tokens[i].empty()) continue;
    added.push_back(
        json_of(static_cast<int64_t>(i), {.content = v.tokens[i], .normalized = false, .special = special}));
  }
  return added;
}

Json post_processor(const PlainVocabulary& v, const std::optional<std::string>& bos,
                    const std::optional<std::string>& eos) {
  Json single = Json::array(), pair = Json::array(), specials = Json::object();
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
  if (is_scored(v) && v.merges.empty())
    for (const auto& [left, right] : merges_of_scores(v.tokens, v.scores))
      add(fmt::format("[{},{}]", Json(left).dump(), Json(right).dump()));
  else
    for (const std::string& merge : v.merges) add(Json(merge).dump());
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

struct Merge {
  float score;
  size_t left;  // characters
  size_t right, token;
  size_t cut;  // position in bytes
};
}  // namespace

const GgufPre* find_gguf_pre_like(const std::function<bool(const GgufPre&)>& matches) {
  const GgufPre* found = std::find_if(std::begin(kPre), std::end(kPre), matches);
  return found == std::end(kPre) ? nullptr : found;
}

std::string known_gguf_pres() {
  std::vector<std::string_view> known;
  for (const GgufPre& pre : kPre) known.push_back(pre.name);
  return base::join(known);
}

const GgufPre& find_gguf_pre(const std::string& name, const std::string& origin) {
  const std::string wanted = name.empty() ? "default" : name;
  if (const GgufPre* pre = find_gguf_pre_like([&](const GgufPre& known) { return known.name == wanted; }))
    return *pre;
  fail(Status::unsupported,
       "{}: tokenizer.ggml.pre: the pre-tokenizer '{}' is not read by this build; known are {}",
       Place::in(origin), name, known_gguf_pres());
}

base::Json pre_tokenizer_of(const GgufPre& pre) {
  base::Json steps = base::Json::array();
  if (pre.digits) steps.push_back(digits());
  for (const char* pattern : pre.split)
    if (pattern) steps.push_back(isolate(pattern));
  steps.push_back(byte_level(pre.gpt2));
  return steps.size() == 1 ? steps[0] : pre_tokenizers(std::move(steps));
}

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
      fail(Status::format, "{}: tokenizer.chat_templates: '{}' is not a file name", Place::in(origin), name);
    files.emplace_back(
        name == "default" ? kTemplate : fmt::format("{}/{}{}", kMoreTemplates, name, kTemplateEnding), text);
  }
  return files;
}

std::vector<std::pair<std::string_view, std::string_view>> merges_of_scores(
    const std::vector<std::string>& tokens, const std::vector<float>& scores) {
  const std::unordered_set<std::string_view> known(tokens.begin(), tokens.end());
  std::vector<Merge> merges;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string_view token = tokens[i];
    const size_t length = base::count_code_points(token);
    size_t left = 0;
    for (size_t cut = 0; left + 1 < length;) {
      base::next_code_point(token, cut);
      ++left;
      if (known.contains(token.substr(0, cut)) && known.contains(token.substr(cut)))
        merges.push_back({scores[i], left, length - left, i, cut});
    }
  }
  std::ranges::stable_sort(merges, [](const Merge& a, const Merge& b) {
    return std::tie(a.score, a.left, a.right) > std::tie(b.score, b.left, b.right);
  });
  std::vector<std::pair<std::string_view, std::string_view>> pairs;
  pairs.reserve(merges.size());
  for (const Merge& merge : merges) {
    const std::string_view token = tokens[merge.token];
    pairs.emplace_back(token.substr(0, merge.cut), token.substr(merge.cut));
  }
  return pairs;
}

}  // namespace trl::text
