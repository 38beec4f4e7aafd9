#include "run/open_model.h"

#include "adapter/config_file.h"
#include "adapter/tensors.h"
#include "base/error.h"
#include "base/json/json.h"
#include "config/model_options.h"
#include "engine/error_capture.h"
#include "io/gguf.h"

namespace trl::run {

io::ModelSource needed_model(const config::Config& config) {
  io::ModelSource model = named_model(config);
  if (model.name().empty())
    fail_key("model_name_or_path", "model_name_or_path is not set; give a model directory or a GGUF file");
  return model;
}

io::ModelSource named_model(const config::Config& config) {
  return config.get_text("model_name_or_path").value_or("");
}

bool has_tokenizer(const base::NamedFiles& files) {
  return files.has("tokenizer.json") || files.has("tokenizer.model");
}

std::string adapter_path(const config::Config& options) {
  return options.get_text("adapter_name_or_path").value_or("");
}

bool is_reward(const io::ModelSource& model, const config::Config& options) {
  const std::string adapter = adapter_path(options);
  return options.method().scores() || names_classifier(model) ||
         (!adapter.empty() && makes_classifier(adapter));
}

bool makes_classifier(const std::string& adapter) {
  return adapter::read_config(adapter).task_type == "SEQ_CLS";
}

bool names_classifier(const base::NamedFiles& files) {
  if (!files.has("config.json")) return false;  // refused by its name when the model is opened
  const base::Json config = base::read_json_file(files, "config.json");
  if (!config.is_object() || !config.contains("architectures")) return false;
  const base::Json& all = config["architectures"];
  const base::Json& first = all.is_array() && !all.empty() ? all.front() : all;
  return first.is_string() && first.get<std::string>().ends_with("ForSequenceClassification");
}

int64_t named_positions(const base::Json& config) {
  const base::Json& text = config.contains("text_config") ? config["text_config"] : config;
  for (const char* key : {"max_position_embeddings", "n_positions"})
    if (const auto found = text.find(key); found != text.end() && found->is_number_integer())
      return found->get<int64_t>();
  return 0;
}

int64_t named_positions(const io::ModelSource& model) {
  if (model.form() == io::ModelForm::gguf) {
    const auto file = model.gguf();
    const std::string key = file->text("general.architecture") + ".context_length";
    return file->find(key) != nullptr ? file->integer(key) : 0;
  }
  return model.has("config.json") ? named_positions(base::read_json_file(model, "config.json")) : 0;
}

int64_t named_embedding_rows(const base::Json& config) {
  // A multimodal model has the sizes of its language model in a separate section.
  const base::Json& text =
      !config.contains("vocab_size") && config.contains("text_config") ? config["text_config"] : config;
  const auto found = text.find("vocab_size");
  return found != text.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

int64_t named_embedding_rows(const io::ModelSource& model) {
  if (model.form() == io::ModelForm::gguf) {
    const auto file = model.gguf();
    const auto embedding = file->tensors().find("token_embd.weight");
    return embedding != file->tensors().end() && !embedding->second.shape.empty()
               ? embedding->second.shape.front()
               : 0;
  }
  return model.has("config.json") ? named_embedding_rows(base::read_json_file(model, "config.json")) : 0;
}

int64_t adapter_embedding_rows(const config::Config& options) {
  const std::string adapter = adapter_path(options);
  return adapter.empty() ? 0 : adapter::embedding_rows(adapter);
}

io::ModelSource tokenizer_source(const io::ModelSource& model, const config::Config& options) {
  const std::string adapter = adapter_path(options);
  return !adapter.empty() && has_tokenizer(adapter) ? adapter : model;
}

std::string base_path(const std::string& path, config::Config& options) {
  if (!adapter::is_adapter(path)) return path;
  const std::string base = adapter::read_config(path).base_model_name_or_path;
  if (base.empty()) {
    fail(Status::not_found,
         "{}: is an adapter, and {} does not say of which model: give the model, and the adapter as "
         "adapter_name_or_path",
         Place::in(path), adapter::kConfigFile);
  }
  options.set("adapter_name_or_path", path);
  return base;
}

namespace {

// Says whether the head is trained, which TRL does in float32. A frozen head keeps its own type.
bool trains_wide_head(const config::Config& options) {
  constexpr const char* kKey = "cast_lm_head_to_fp32";
  return options.has(kKey) && options.get_bool(kKey) && !options.get_bool("use_peft");
}

}  // namespace

engine::ModelSpec model_spec(const io::ModelSource& source, std::string_view dtype,
                             const config::Config& options, const Opening& how) {
  const std::string adapter = adapter_path(options);
  return {.source = source,
          .dtype = dtype,
          .use_cpu = options.get_bool("use_cpu"),
          .embedding_rows = how.embedding_rows,
          .seed = static_cast<uint64_t>(options.get_int("seed")),
          .quantization = config::quantization(options),
          .reward = how.reward,
          .head_follows = how.reward && !adapter.empty() && makes_classifier(adapter),
          .mapped = how.mapped,
          .bf16 = how.bf16,
          .wide_head = !how.mapped && adapter.empty() && trains_wide_head(options),
          .plain = config::plain_kernels(options)};
}

EngineObject<engine::Model> open_model(Environment& environment, const io::ModelSource& source,
                                       const config::Config& options, const Opening& how) {
  const std::string dtype = config::model_dtype(options);
  const std::string adapter = adapter_path(options);
  const engine::ModelSpec spec = model_spec(source, dtype, options, how);
  engine::Model* model = nullptr;
  engine::ErrorCapture error;
  engine::Engine& engine = environment.engine();
  error.check(environment.use_engine(Use::open, [&] { return engine.open_model(spec, &model, error); }));
  EngineObject<engine::Model> opened(model);
  if (!adapter.empty()) {
    error.check(environment.use_engine(Use::open, [&] {
      const int32_t status = model->add_adapter("default", adapter, error);
      return status < 0 ? status : model->use_adapter("default", error);
    }));
  }
  return opened;
}

engine::SaveKind save_kind(std::string_view name) {
  using engine::SaveKind;
  if (name == "checkpoint") return SaveKind::checkpoint;
  if (name == "adapter") return SaveKind::adapter;
  return name == "merged" ? SaveKind::merged : SaveKind::model;
}

std::vector<int32_t> end_tokens(engine::Model& model, const text::Tokenizer& tokenizer) {
  const auto of_model = model.end_ids();
  std::vector<int32_t> ids(of_model.begin(), of_model.end());
  if (const auto eos = tokenizer.special_id(tokenizer.special().eos)) ids.push_back(*eos);
  return ids;
}

}  // namespace trl::run
