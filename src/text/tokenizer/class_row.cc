// Rows from transformers 5.23's models/*/tokenization_*.py; the choice of a class by the tables of its
// models/auto/tokenization_auto.py, with the model types whose tokenizers are read or refused.
#include "text/tokenizer/settings.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/files.h"
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

bool is_unread_class(std::string_view name) {
  return std::find(std::begin(kUnread), std::end(kUnread), base_name(name)) != std::end(kUnread);
}

// Returns "LlamaTokenizer, ..." for messages.
std::string known_classes() {
  std::vector<std::string_view> names;
  for (const ClassRow& row : kRows) names.push_back(row.name);
  return base::join(names);
}

// Maps a class to model types, each between spaces. Types of a generic class first: they use tokenizer.json
// unchanged, whichever class is named.
constexpr std::string_view kGeneric =
    " EvollaModel arctic aria beam bigbird_pegasus camembertv2-base canary chatlm cohere_asr ernie4_5 "
    "ernie4_5_moe flex_olmo fuyu glm glm4 glm4_moe glm4_moe_lite glm4v glm4v_moe glm_image glmasr got_ocr2 "
    "gpt_bigcode gradium_phonon_tts granite granitemoe granitemoehybrid granitemoeshared h2ovl_chat "
    "hyperclovax hyperclovax_vlm internlm2 internlm3 iquestcoder jamba kimi_k25 kimi_linear kosmos-2 llava "
    "llava_next mimo_v2_flash minicpm3 minicpm_ocr minicpmv minicpmv4_6 minicpmv4_7 minimax_m2 ministral "
    "ministral3 mistral mistral3 mistral_large4 mixtral modernbert modernbert-decoder molmo molmo2 "
    "nemo_speechlm nemotron nvfp4 nystromformer olmo2 olmo3 olmo_hybrid opencua openvla paddleocr_vl "
    "pegasus_x persimmon phi3 phi3_v phimoe pix2struct pixtral pocket_tts smolvlm stablelm step3_vl umt5 "
    "vipllava voxtral voxtral_realtime xlm-roberta-xl ";

constexpr std::pair<std::string_view, std::string_view> kOwn[] = {
    {"AlbertTokenizer", " albert "},
    {"BertTokenizer",
     " align bark bert blip bros chinese_clip convbert distilbert electra ernie flava git grounding-dino "
     "layoutlm megatron-bert mm-grounding-dino nezha nomic_bert qdqbert realm retribert squeezebert tvp vilt "
     "visual_bert "},
    {"CamembertTokenizer", " camembert "},
    {"CodeLlamaTokenizer", " code_llama "},
    {"CohereTokenizer", " aya_vision cohere cohere2 "},
    {"DebertaTokenizer", " deberta "},
    {"DebertaV2Tokenizer", " deberta-v2 "},
    {"GPT2Tokenizer",
     " blip-2 codegen dbrx emu3 gpt2 gpt_neo gptj hyperclovax_vision_v2 instructblip instructblipvideo jais2 "
     "opt phi starcoder2 "},
    {"GPTNeoXTokenizer", " falcon_mamba gpt_neox mamba mamba2 mpt olmo olmoe rwkv xlstm "},
    {"GemmaTokenizer",
     " diffusion_gemma gemma gemma2 gemma3 gemma3_text gemma3n gemma3n_text recurrent_gemma shieldgemma2 "
     "t5gemma zaya "},
    {"LlamaTokenizer", " idefics idefics2 "},
    {"MPNetTokenizer", " mpnet "},
    {"OpenAIGPTTokenizer", " openai-gpt "},
    {"Qwen2Tokenizer",
     " audioflamingo3 colqwen2 cosmos3_omni dots3_note fun_asr_nano hunyuan_vl internvl lighton_ocr "
     "moss_transcribe_diarize ovis2 qianfan_ocr qwen2 qwen2_5_omni qwen2_5_vl qwen2_audio qwen2_moe qwen2_vl "
     "qwen3 qwen3_asr qwen3_moe qwen3_next qwen3_omni_moe qwen3_vl qwen3_vl_moe vibevoice "},
    {"Qwen3_5Tokenizer", " qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text qwen4_exp "},
    {"RobertaTokenizer",
     " bart bridgetower clap data2vec-text florence2 ibert led lilt longformer mega mra mvp roberta "
     "roberta-prelayernorm "},
    {"T5Tokenizer", " mt5 musicgen musicgen_melody switch_transformers t5 "},
    {"XLMRobertaTokenizer", " gte jina_embeddings_v3 metaclip_2 trocr xlm-roberta xmod "}};

// Types whose directories are known to name a wrong class.
constexpr std::string_view kOverruled =
    " hyperclovax_vision_v2 qwen2 qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen4_exp ";

bool has(std::string_view list, std::string_view word) {
  return !word.empty() && list.find(" " + std::string(word) + " ") != std::string_view::npos;
}

std::string own_class(std::string_view model_type) {
  for (const auto& [name, types] : kOwn)
    if (has(types, model_type)) return std::string(name);
  return {};
}

struct Names {
  std::string named;         // tokenizer_class of tokenizer_config.json, else of config.json
  std::string model_type;    // from config.json
  bool remote_code = false;  // tokenizer_config.json's auto_map has an AutoTokenizer
};

Names read_names(const Files& files, const base::NamedFiles& of_model) {
  const std::string path = of_model.place("tokenizer_config.json");
  base::Json model = base::Json::object();
  if (of_model.has("config.json")) model = base::read_json_file(of_model, "config.json");
  const std::string* text = find_file(files, "tokenizer_config.json");
  const base::Json config = text ? read_small_json(*text, path) : base::Json::object();
  const Field in_model(model, of_model.place("config.json"));
  const auto remote = config.find("auto_map");
  Names names;
  names.model_type = in_model.text_or("model_type", "");
  names.named = Field(config, path).text_or("tokenizer_class", in_model.text_or("tokenizer_class", ""));
  names.remote_code = remote != config.end() && (remote->is_array() || remote->contains("AutoTokenizer"));
  return names;
}

std::string choose(const Names& names) {
  const std::string own = own_class(names.model_type);
  if (names.named.empty()) return own;
  if (names.remote_code) return names.named;
  if (has(kOverruled, names.model_type)) return own;
  return has(kGeneric, names.model_type) ? std::string() : names.named;
}

// Returns whether the file overrules LlamaTokenizer, which has no ByteLevel step: with such a file it is not
// rebuilt.
bool overrules(const Names& names, const std::string& tokenizer_json) {
  return (names.named == "LlamaTokenizer" || names.named == "LlamaTokenizerFast") && !names.remote_code &&
         tokenizer_json.find("\"ByteLevel\"") != std::string::npos;
}
}  // namespace

const ClassRow* find_class_row(std::string_view name) {
  for (const ClassRow& row : kRows)
    if (row.name == base_name(name)) return &row;
  return nullptr;
}

std::string choose_class(const Files& files, const base::NamedFiles& model, base::LogSink* log) {
  const Names names = read_names(files, model);
  const std::string chosen = choose(names);
  const std::string path = model.place("tokenizer_config.json");
  if (is_unread_class(chosen))
    fail(Status::unsupported,
         "{}: tokenizer_class: transformers rebuilds a {} instead of using tokenizer.json, and this build "
         "cannot; known are {}, and PreTrainedTokenizerFast takes tokenizer.json as it is",
         Place::in(path), chosen, known_classes());
  if (chosen != names.named || !overrules(names, *find_file(files, "tokenizer.json"))) return chosen;
  if (log)
    log->warning("text",
                 "{}: tokenizer_class is {}, which marks spaces, but tokenizer.json has ByteLevel steps: the "
                 "file's steps are used, as in transformers",
                 path, names.named);
  return {};
}

}  // namespace trl::text
