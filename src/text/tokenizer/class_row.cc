// Rows from transformers 5.23's models/*/tokenization_*.py.
#include "text/tokenizer/class_row.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/text/nearest.h"

namespace trl::text {

#define TRL_CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
#define TRL_SPACES "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
const char* const kQwen2Split =
    TRL_CONTRACTIONS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" TRL_SPACES;
const char* const kQwen35Split = TRL_CONTRACTIONS
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" TRL_SPACES;
const char* const kLlama3Split =
    TRL_CONTRACTIONS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" TRL_SPACES;
#undef TRL_CONTRACTIONS
#undef TRL_SPACES

namespace {
constexpr const char* kEnd = "<|endoftext|>";
constexpr DefaultTokens kGpt2Tokens{.bos = kEnd, .eos = kEnd, .unk = kEnd, .pad = ""};
constexpr DefaultTokens kQwenTokens{.bos = "", .eos = kEnd, .unk = kEnd, .pad = kEnd};
constexpr DefaultTokens kRobertaTokens{"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"};
constexpr DefaultTokens kLlamaTokens{.bos = "<s>", .eos = "</s>", .unk = "<unk>"};

const ClassRow kRows[] = {
    {.name = "BertTokenizer",
     .model = "WordPiece",
     .shape = Shape::bert,
     .tokens = {.unk = "[UNK]", .sep = "[SEP]", .pad = "[PAD]", .cls = "[CLS]", .mask = "[MASK]"},
     .surround = Surround::cls_sep},
    {.name = "CodeGenTokenizer", .tokens = kGpt2Tokens},
    {.name = "CodeLlamaTokenizer",
     .shape = Shape::metaspace,
     .tokens = kLlamaTokens,
     .unknown_in_model = true,
     .infilling = true,
     .surround = Surround::bos},
    {.name = "CohereTokenizer",
     .tokens = {"<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>", "<UNK>", "<SEP>", "<PAD>", "<CLS>", "<MASK_TOKEN>"},
     .nfc = true,
     .digits = true,
     .plain = Plain::extra},
    {.name = "GPT2Tokenizer", .tokens = kGpt2Tokens},
    {.name = "GPTNeoXTokenizer",
     .tokens = {.bos = kEnd, .eos = kEnd, .unk = kEnd, .pad = "<|padding|>"},
     .nfc = true,
     .surround = Surround::nothing},
    {.name = "GemmaTokenizer",
     .shape = Shape::gemma,
     .tokens = {.bos = "<bos>", .eos = "<eos>", .unk = "<unk>", .pad = "<pad>", .mask = "<mask>"},
     .unknown_in_model = true},
    {.name = "LlamaTokenizer", .shape = Shape::metaspace, .tokens = kLlamaTokens},
    {.name = "Qwen2Tokenizer", .tokens = kQwenTokens, .split = kQwen2Split, .nfc = true, .plain = Plain::all},
    {.name = "Qwen3_5Tokenizer", .tokens = kQwenTokens, .split = kQwen35Split, .nfc = true},
    {.name = "RobertaTokenizer", .tokens = kRobertaTokens, .surround = Surround::cls_sep},
    {.name = "T5Tokenizer",
     .model = "Unigram",
     .shape = Shape::unigram,
     .tokens = {.eos = "</s>", .unk = "<unk>", .pad = "<pad>"},
     .surround = Surround::eos,
     .unknown_id = 2,
     .sentinels = true},
    {.name = "XLMRobertaTokenizer",
     .model = "Unigram",
     .shape = Shape::unigram,
     .tokens = kRobertaTokens,
     .surround = Surround::bos_eos,
     .unknown_id = 3},
};

// Encoders, translators, GPT-1 and classes for pictures and sound.
constexpr std::string_view kUnread[] = {
    "AlbertTokenizer",      "BarthezTokenizer",    "BigBirdTokenizer",    "BlenderbotTokenizer",
    "CLIPTokenizer",        "CamembertTokenizer",  "ConvBertTokenizer",   "DebertaTokenizer",
    "DebertaV2Tokenizer",   "EsmcTokenizer",       "FunnelTokenizer",     "HerbertTokenizer",
    "LasrTokenizer",        "LayoutLMv2Tokenizer", "LayoutLMv3Tokenizer", "LayoutXLMTokenizer",
    "LukeTokenizer",        "MBart50Tokenizer",    "MBartTokenizer",      "MLukeTokenizer",
    "MPNetTokenizer",       "MarkupLMTokenizer",   "NllbTokenizer",       "NougatTokenizer",
    "OpenAIGPTTokenizer",   "PegasusTokenizer",    "ReformerTokenizer",   "RemBertTokenizer",
    "SeamlessM4TTokenizer", "Siglip2Tokenizer",    "SplinterTokenizer",   "Tipsv2Tokenizer",
    "UdopTokenizer",        "VideoPrismTokenizer", "WhisperTokenizer",    "XGLMTokenizer",
    "XLNetTokenizer"};

std::string_view base_name(std::string_view name) {
  if (name.ends_with("Fast")) name.remove_suffix(4);
  if (name == "BartTokenizer" || name == "LEDTokenizer" || name == "MvpTokenizer") return "RobertaTokenizer";
  for (const std::string_view bert : {"DistilBertTokenizer", "ElectraTokenizer", "LayoutLMTokenizer",
                                      "LxmertTokenizer", "MobileBertTokenizer", "SqueezeBertTokenizer"})
    if (name == bert) return "BertTokenizer";
  return name;
}
}  // namespace

const ClassRow* find_class_row(std::string_view name) {
  for (const ClassRow& row : kRows) {
    if (row.name == base_name(name)) return &row;
  }
  return nullptr;
}

bool is_unread_class(std::string_view name) {
  return std::find(std::begin(kUnread), std::end(kUnread), base_name(name)) != std::end(kUnread);
}

std::string known_classes() {
  std::vector<std::string_view> names;
  for (const ClassRow& row : kRows) names.push_back(row.name);
  return base::join(names);
}

}  // namespace trl::text
