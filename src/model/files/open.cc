#include "model/files/open.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "base/error.h"
#include "model/gguf/metadata.h"
#include "model/model.h"
#include "tensor/memory/counted.h"

namespace trl::model {

namespace {

using base::Json;
using engine::EndToken;

// stored: a dtype's name, as in config.json or a weight file, in any case.
at::ScalarType choose_dtype(std::string_view wanted, std::string_view stored) {
  if (wanted == "float32" || wanted == "keep") return at::kFloat;
  if (wanted == "bfloat16") return at::kBFloat16;
  if (wanted != "auto")
    fail_key("dtype", "dtype \"{}\" is not supported; these are: auto, float32, bfloat16, keep", wanted);
  return stored == "bfloat16" || stored == "BF16" ? at::kBFloat16 : at::kFloat;
}

std::string stored_dtype(const Json& config, const Family& family, const WeightSource& weights) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    const auto found = config.find(key);
    if (found != config.end() && found->is_string()) return found->get<std::string>();
  }
  const std::string name = stored_name(weights, family, std::string(family.names.embedding) + ".weight");
  return weights.shape(name) != nullptr ? weights.type(name) : std::string();
}

// Writes the one score of a reward model as transformers does.
void name_score(Json& config) {
  config.erase("num_labels");
  config["id2label"] = {{"0", "LABEL_0"}};
  config["label2id"] = {{"LABEL_0", 0}};
}

// Files of a base class may have a head all the same. A model with scores does not generate.
void settle_head(ModelFiles& files, const WeightSource& weights, Head head) {
  if (head != Head::reward) return;
  name_score(files.config_json);
  files.generation_config_json = Json::object();
  files.end_ids.clear();
  const Family& family = *files.config.family;
  const std::string score = stored_name(weights, family, std::string(family.names.score) + ".weight");
  if (weights.shape(score) != nullptr) files.config.new_head = false;
}

// The file that config.json names instead of the usual one; empty: none.
std::string weights_file(const Json& config, const std::string& origin) {
  const auto named = config.find("transformers_weights");
  if (named == config.end() || named->is_null()) return {};
  if (named->is_string()) return named->get<std::string>();
  fail(Status::format, "{}: \"transformers_weights\" is not the name of a file", Place::in(origin));
}

constexpr const char* kEos = "eos_token_id";

// The fields of GenerationConfig that config.json has too.
constexpr std::string_view kShared[] = {
    "bos_token_id",         kEos,       "pad_token_id", "decoder_start_token_id", "output_attentions",
    "output_hidden_states", "use_cache"};
// Its other fields.
constexpr std::string_view kGenerationOnly[] = {"assistant_confidence_threshold",
                                                "assistant_early_exit",
                                                "assistant_lookbehind",
                                                "bad_words_ids",
                                                "begin_suppress_tokens",
                                                "cache_implementation",
                                                "constraints",
                                                "disable_compile",
                                                "diversity_penalty",
                                                "do_sample",
                                                "dola_layers",
                                                "early_stopping",
                                                "encoder_no_repeat_ngram_size",
                                                "encoder_repetition_penalty",
                                                "epsilon_cutoff",
                                                "eta_cutoff",
                                                "exponential_decay_length_penalty",
                                                "force_words_ids",
                                                "forced_bos_token_id",
                                                "forced_eos_token_id",
                                                "guidance_scale",
                                                "length_penalty",
                                                "low_memory",
                                                "max_length",
                                                "max_matching_ngram_size",
                                                "max_new_tokens",
                                                "max_time",
                                                "min_length",
                                                "min_new_tokens",
                                                "min_p",
                                                "no_repeat_ngram_size",
                                                "num_assistant_tokens",
                                                "num_assistant_tokens_schedule",
                                                "num_beam_groups",
                                                "num_beams",
                                                "num_return_sequences",
                                                "output_logits",
                                                "output_scores",
                                                "penalty_alpha",
                                                "prefill_chunk_size",
                                                "prompt_lookup_num_tokens",
                                                "remove_invalid_values",
                                                "renormalize_logits",
                                                "repetition_penalty",
                                                "return_dict_in_generate",
                                                "sequence_bias",
                                                "stop_strings",
                                                "suppress_tokens",
                                                "target_lookbehind",
                                                "temperature",
                                                "token_healing",
                                                "top_h",
                                                "top_k",
                                                "top_p",
                                                "typical_p"};

bool among(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// For a directory without a generation_config.json: the entries that transformers reads from config.json
// instead, and from then on keeps in a separate file. Entries that nothing else reads are removed from
// config.json.
Json take_generation_config(Json& config) {
  Json generation = {{"_from_model_config", true}}, rest = Json::object();
  for (const auto& [name, value] : config.items()) {
    const bool moves = among(kGenerationOnly, name);
    if (!moves) rest[name] = value;
    if ((moves || among(kShared, name)) && !value.is_null()) generation[name] = value;
  }
  config = std::move(rest);
  return generation;
}

constexpr std::string_view kConfig = "config.json", kGenerationConfig = "generation_config.json";

OpenedFiles open_weights(const io::ModelSource& from, Head head) {
  const std::string config_path = from.place(kConfig);
  if (!from.has(kConfig)) {
    fail(Status::not_found, "{}: it has no config.json; give a Hugging Face model directory or a .gguf file",
         Place::in(from.name()));
  }
  ModelFiles files;
  files.config_json = base::read_json_file(from, kConfig);
  files.config = parse_config(files.config_json, config_path, head);
  if (from.has(kGenerationConfig)) {
    files.generation_config_json = base::read_json_file(from, kGenerationConfig);
    files.end_ids = parse_end_ids(files.generation_config_json, from.place(kGenerationConfig));
  } else {
    files.generation_config_json = take_generation_config(files.config_json);
    files.end_ids = parse_end_ids(files.generation_config_json, config_path);
  }
  auto source =
      plain_weights(from.weights(weights_file(files.config_json, config_path)), *files.config.family);
  std::string dtype = stored_dtype(files.config_json, *files.config.family, *source);
  settle_head(files, *source, head);
  return {std::move(files), std::move(dtype), std::move(source)};
}

OpenedFiles open_gguf(const std::shared_ptr<const io::Gguf>& file, Head head) {
  file->need_model();
  ModelFiles files;
  files.config_json = gguf_config_json(*file);
  files.generation_config_json = gguf_generation_config_json(*file);
  files.config = parse_config(files.config_json, file->path(), head);
  files.end_ids = parse_end_ids(files.generation_config_json, file->path());
  auto weights = gguf_weights(file, files.config);
  settle_head(files, *weights, head);
  return {std::move(files), file->tensors().find("token_embd.weight")->second.type_name, std::move(weights)};
}

void refuse_keep(const io::ModelSource& from, std::string_view dtype,
                 const config::Quantization& quantization) {
  if (dtype != "keep") return;
  if (from.form() != io::ModelForm::gguf)
    fail_key("dtype", "dtype: keep: {} is {}; the weights of a GGUF file are kept as they are", from.name(),
             from.in_memory() ? "in memory" : "a directory");
  if (quantization)
    fail_key("dtype",
             "dtype: keep leaves weights as they are, and load_in_4bit or load_in_8bit quantises them");
}

Json value_or_null(const Json& json, const char* name) { return json.value(name, Json()); }

bool holds(const Json& value, int32_t id) {
  return value.is_array() ? std::ranges::find(value, Json(id)) != value.end() : value == id;
}

// [id, previous ids]
Json before_others(int32_t id, const Json& value) {
  Json ids = Json::array({id});
  for (const Json& other : value.is_array() ? value : Json::array({value}))
    if (!other.is_null() && other != id) ids.push_back(other);
  return ids;
}

void align(Json& config, Json* generation, const char* name, int32_t id) {
  const Json in_config = value_or_null(config, name),
             in_generation = generation != nullptr ? value_or_null(*generation, name) : Json(id);
  if (holds(in_config, id) && holds(in_generation, id)) return;
  const bool several = std::string_view(name) == kEos;
  config[name] = several && in_config.is_array() ? before_others(id, in_config) : Json(id);
  if (generation != nullptr) (*generation)[name] = several ? before_others(id, in_generation) : Json(id);
}

// The step of SFTTrainer before Trainer aligns.
void take_end_token(Json& config, Json* generation, int32_t id, EndToken how) {
  if (how == EndToken::aligned) return;
  config[kEos] = id;
  if (generation == nullptr) return;
  if (how == EndToken::replaced)
    (*generation)[kEos] = id;
  else if (const Json now = value_or_null(*generation, kEos); !holds(now, id))
    (*generation)[kEos] = before_others(id, now);
}

}  // namespace

namespace {

OpenedFiles open_form(const io::ModelSource& from, Head head) {
  const io::ModelForm form = from.form();
  if (form == io::ModelForm::directory || form == io::ModelForm::memory) return open_weights(from, head);
  if (form == io::ModelForm::none) {
    fail(Status::not_found,
         "{}: no such file or directory; give a Hugging Face model directory or a .gguf file",
         Place::in(from.path()));
  }
  if (form == io::ModelForm::gguf && head != Head::scores) return open_gguf(from.gguf(), head);
  fail(Status::format, "{}: not a GGUF file; give a Hugging Face model directory or a .gguf file",
       Place::in(from.path()));
}

}  // namespace

OpenedFiles open_files(const io::ModelSource& from, Head head) {
  return reading(from.path(), [&] { return open_form(from, head); });
}

std::unique_ptr<Model> Model::open(const io::ModelSource& from, std::string_view dtype, base::LogSink* log,
                                   at::Device device, Head head, const config::Quantization& quantization,
                                   uint64_t seed) {
  OpenedFiles opened = open_files(from, head);
  const at::ScalarType type = choose_dtype(dtype, opened.stored_dtype);
  refuse_keep(from, dtype, quantization);
  auto model = reading(from.path(), [&] {
    return std::make_unique<Model>(std::move(opened.files), std::move(opened.weights), type, device,
                                   quantization, dtype == "keep" ? Held::as_stored : Held::numbers, log,
                                   seed);
  });
  tensor::trim();  // frees the buffers that tensors were read into
  return model;
}

std::unique_ptr<Model> Model::open_mapped(const io::ModelSource& from, std::string_view dtype,
                                          base::LogSink* log, Head head,
                                          const config::Quantization& quantization, uint64_t seed,
                                          at::ScalarType products) {
  OpenedFiles opened = open_files(from, head);
  const at::ScalarType type = choose_dtype(dtype, opened.stored_dtype);
  refuse_keep(from, dtype, quantization);
  const Held held = products == at::kBFloat16 ? Held::for_bfloat16 : Held::as_stored;
  return reading(from.path(), [&] {
    return std::make_unique<Model>(std::move(opened.files), std::move(opened.weights), type, at::kCPU,
                                   quantization, held, log, seed);
  });
}

uint64_t Model::weights_version() const {
  uint64_t version = 0;
  for (const Parameter* const parameter : parameters()) version += parameter->version();
  return version;
}

std::vector<Parameter*> Model::all_parameters() {
  std::vector<Parameter*> all = parameters();
  for (const auto& adapter : adapters().all())
    for (Parameter* parameter : adapter->parameters()) all.push_back(parameter);
  return all;
}

void Model::train_only(Adapter& adapter) {
  for (Parameter* parameter : all_parameters()) parameter->trainable = false;
  for (Parameter* parameter : adapter.parameters()) parameter->trainable = true;
  adapters().use(&adapter);
  adapters().train(&adapter);
}

Outline Model::outline(const io::ModelSource& from, std::string_view dtype, Head head) {
  const OpenedFiles opened = open_files(from, head);
  return {opened.files.config, choose_dtype(dtype, opened.stored_dtype)};
}

std::vector<std::string> align_special_tokens(Json& config, Json* generation,
                                              const engine::SpecialTokens& tokens) {
  constexpr std::array kNames = {kEos, "bos_token_id", "pad_token_id"};
  const std::array ids = {tokens.eos, tokens.bos, tokens.pad};
  const auto of_generation = [&] { return generation != nullptr ? *generation : Json::object(); };
  const Json before[] = {config, of_generation()};
  if (tokens.eos >= 0) take_end_token(config, generation, tokens.eos, tokens.end);
  for (size_t i = 0; i < kNames.size(); ++i)
    if (ids[i] >= 0) align(config, generation, kNames[i], ids[i]);
  const Json after = of_generation();
  std::vector<std::string> changes;
  for (const char* name : kNames) {
    const Json was_config = value_or_null(before[0], name), was = value_or_null(before[1], name);
    const Json is_config = value_or_null(config, name), is = value_or_null(after, name);
    if (was_config != is_config)
      changes.push_back(fmt::format("{} of config.json {} -> {}", name, was_config.dump(), is_config.dump()));
    if (was != is)
      changes.push_back(fmt::format("{} of generation_config.json {} -> {}", name, was.dump(), is.dump()));
  }
  return changes;
}

}  // namespace trl::model
