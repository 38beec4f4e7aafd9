// Facts from llama.cpp's llama-vocab.cpp; text that its patterns do not match forms its own words.
#include "text/tokenizer/gguf_pre.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/text/nearest.h"
#include "text/tokenizer/class_row.h"
#include "text/tokenizer/steps.h"

namespace trl::text {

namespace {
constexpr const char* kGpt2Words =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)";
constexpr const char* kLines = "[\r\n]";
constexpr const char* kEastAsian = "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+";
constexpr const char* kThreeDigits = "[0-9][0-9][0-9]";
// Letters with an upper and a lower case.
constexpr const char* kCasedWords =
    "\\s?["
    "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}"
    "\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}\\x{388}-\\x{38A}"
    "\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}"
    "\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}"
    "\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}"
    "\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}"
    "\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}"
    "\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}"
    "\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}\\x{212A}-\\x{212D}"
    "\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}"
    "\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}"
    "\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}"
    "\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}"
    "\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{"
    "118DF}"
    "\\x{1E900}-\\x{1E943}"
    "]+";
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
    "[\\p{Han}]+|" TRL_WORDS("(?i:'s|'t|'re|'ve|'m|'ll|'d)?") "|\\p{N}{1,3}"
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
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
       "{}: tokenizer.ggml.pre: the pre-tokenizer '{}' is not read by this build; known are {}", origin, name,
       known_gguf_pres());
}

base::Json pre_tokenizer_of(const GgufPre& pre) {
  base::Json steps = base::Json::array();
  if (pre.digits) steps.push_back(digits());
  for (const char* pattern : pre.split) {
    if (pattern) steps.push_back(isolate(pattern));
  }
  steps.push_back(byte_level(pre.gpt2));
  return steps.size() == 1 ? steps[0] : pre_tokenizers(std::move(steps));
}

}  // namespace trl::text
