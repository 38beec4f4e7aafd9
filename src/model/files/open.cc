#include "model/files/open.h"

#include <string_view>

#include "base/error.h"
#include "model/files/generation_config.h"
#include "model/gguf/metadata.h"

namespace trl::model {

namespace {

using base::Json;

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

}  // namespace trl::model
