#include "model/open.h"

#include "base/error.h"
#include "model/gguf_config.h"
#include "model/model.h"
#include "model/special_tokens.h"
#include "tensor/memory/counted.h"

namespace trl::model {

namespace {

// stored: a dtype's name, as in config.json or a weight file, in any case.
at::ScalarType choose_dtype(std::string_view wanted, std::string_view stored) {
  if (wanted == "float32" || wanted == "keep") return at::kFloat;
  if (wanted == "bfloat16") return at::kBFloat16;
  if (wanted != "auto") {
    fail_key("dtype", "dtype \"{}\" is not supported; these are: auto, float32, bfloat16, keep", wanted);
  }
  return stored == "bfloat16" || stored == "BF16" ? at::kBFloat16 : at::kFloat;
}

std::string stored_dtype(const base::Json& config, const Family& family, const WeightSource& weights) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    const auto found = config.find(key);
    if (found != config.end() && found->is_string()) return found->get<std::string>();
  }
  const std::string name = stored_name(weights, family, std::string(family.names.embedding) + ".weight");
  return weights.shape(name) != nullptr ? weights.type(name) : std::string();
}

// Writes the one score of a reward model as transformers does.
void name_score(base::Json& config) {
  config.erase("num_labels");
  config["id2label"] = {{"0", "LABEL_0"}};
  config["label2id"] = {{"LABEL_0", 0}};
}

// Files of a base class may have a head all the same. A model with scores does not generate.
void settle_head(ModelFiles& files, const WeightSource& weights, Head head) {
  if (head != Head::reward) return;
  name_score(files.config_json);
  files.generation_config_json = base::Json::object();
  files.end_ids.clear();
  const Family& family = *files.config.family;
  const std::string score = stored_name(weights, family, std::string(family.names.score) + ".weight");
  if (weights.shape(score) != nullptr) files.config.new_head = false;
}

// The file that config.json names instead of the usual one; empty: none.
std::string weights_file(const base::Json& config, const std::string& origin) {
  const auto named = config.find("transformers_weights");
  if (named == config.end() || named->is_null()) return {};
  if (named->is_string()) return named->get<std::string>();
  fail(Status::format, "{}: \"transformers_weights\" is not the name of a file", origin);
}

OpenedFiles open_directory(const std::string& path, Head head) {
  const std::string config_path = base::join_path(path, "config.json");
  if (!base::file_exists(config_path)) {
    fail(Status::not_found, "{}: it has no config.json; give a Hugging Face model directory or a .gguf file",
         path);
  }
  ModelFiles files;
  files.config_json = base::read_json_file(config_path);
  files.config = parse_config(files.config_json, config_path, head);
  const std::string generation_path = base::join_path(path, "generation_config.json");
  if (base::file_exists(generation_path)) {
    files.generation_config_json = base::read_json_file(generation_path);
    files.end_ids = parse_end_ids(files.generation_config_json, generation_path);
  } else {
    files.generation_config_json = take_generation_config(files.config_json);
    files.end_ids = parse_end_ids(files.generation_config_json, config_path);
  }
  auto source = directory_weights(
      io::Weights::open_directory(path, weights_file(files.config_json, config_path)), *files.config.family);
  std::string dtype = stored_dtype(files.config_json, *files.config.family, *source);
  settle_head(files, *source, head);
  return {std::move(files), std::move(dtype), std::move(source)};
}

OpenedFiles open_gguf(const std::string& path, Head head) {
  const auto file = std::make_shared<const io::Gguf>(path);
  file->need_model();
  ModelFiles files;
  files.config_json = gguf_config_json(*file);
  files.generation_config_json = gguf_generation_config_json(*file);
  files.config = parse_config(files.config_json, path, head);
  files.end_ids = parse_end_ids(files.generation_config_json, path);
  auto weights = gguf_weights(file, files.config);
  settle_head(files, *weights, head);
  return {std::move(files), file->tensors().find("token_embd.weight")->second.type_name, std::move(weights)};
}

void refuse_keep(const std::string& path, std::string_view dtype, const config::Quantization& quantization) {
  if (dtype != "keep") return;
  if (base::is_directory(path))
    fail_key("dtype", "dtype: keep: {} is a directory; the weights of a GGUF file are kept as they are",
             path);
  if (quantization)
    fail_key("dtype",
             "dtype: keep leaves weights as they are, and load_in_4bit or load_in_8bit quantises them");
}

}  // namespace

OpenedFiles open_files(const std::string& given, Head head) {
  const std::string path = io::model_path(given);
  if (base::is_directory(path)) return open_directory(path, head);
  if (!base::file_exists(path)) {
    fail(Status::not_found,
         "{}: no such file or directory; give a Hugging Face model directory or a .gguf file", path);
  }
  if (io::is_gguf(path) && head != Head::scores) return open_gguf(path, head);
  fail(Status::format, "{}: not a GGUF file; give a Hugging Face model directory or a .gguf file", path);
}

std::unique_ptr<Model> Model::open(const std::string& given, std::string_view dtype, base::LogSink* log,
                                   at::Device device, Head head, const config::Quantization& quantization,
                                   uint64_t seed) {
  const std::string path = io::model_path(given);
  OpenedFiles opened = open_files(path, head);
  const at::ScalarType type = choose_dtype(dtype, opened.stored_dtype);
  refuse_keep(path, dtype, quantization);
  auto model =
      std::make_unique<Model>(std::move(opened.files), std::move(opened.weights), type, device, quantization,
                              dtype == "keep" ? Held::as_stored : Held::numbers, log, seed);
  tensor::trim();  // frees the buffers that tensors were read into
  return model;
}

std::unique_ptr<Model> Model::open_mapped(const std::string& given, std::string_view dtype,
                                          base::LogSink* log, Head head,
                                          const config::Quantization& quantization, uint64_t seed,
                                          at::ScalarType products) {
  const std::string path = io::model_path(given);
  OpenedFiles opened = open_files(path, head);
  const at::ScalarType type = choose_dtype(dtype, opened.stored_dtype);
  refuse_keep(path, dtype, quantization);
  const Held held = products == at::kBFloat16 ? Held::for_bfloat16 : Held::as_stored;
  return std::make_unique<Model>(std::move(opened.files), std::move(opened.weights), type, at::kCPU,
                                 quantization, held, log, seed);
}

std::vector<Parameter*> Model::all_parameters() {
  std::vector<Parameter*> all = parameters();
  for (const auto& adapter : adapters().all()) {
    for (Parameter* parameter : adapter->parameters()) all.push_back(parameter);
  }
  return all;
}

void Model::train_only(Adapter& adapter) {
  for (Parameter* parameter : all_parameters()) parameter->trainable = false;
  for (Parameter* parameter : adapter.parameters()) parameter->trainable = true;
  adapters().use(&adapter);
  adapters().train(&adapter);
}

Outline Model::outline(const std::string& path, std::string_view dtype, Head head) {
  const OpenedFiles opened = open_files(path, head);
  return {opened.files.config, choose_dtype(dtype, opened.stored_dtype)};
}

}  // namespace trl::model
