// trl_model_*.
#include "capi/model_handle.h"

#include <filesystem>

#include "adapter/config_file.h"
#include "adapter/tensors.h"
#include "base/files.h"
#include "base/json.h"
#include "base/polled_lock.h"
#include "capi/config_handle.h"
#include "capi/guard.h"
#include "config/data_arguments.h"
#include "config/model_dtype.h"
#include "config/quantization.h"
#include "data/template_model.h"
#include "engine/error_capture.h"

namespace trl::capi {

bool has_tokenizer(const std::string& directory) {
  return base::file_exists(base::join_path(directory, "tokenizer.json")) ||
         base::file_exists(base::join_path(directory, "tokenizer.model"));
}

namespace {

std::string adapter_path(const config::Config& options) {
  return options.get_text("adapter_name_or_path").value_or("");
}

// The files decide, whatever the method.
bool is_reward(const std::string& path, const config::Config& options) {
  const std::string adapter = adapter_path(options);
  return options.method() == "reward" || names_classifier(path) ||
         (!adapter.empty() && makes_classifier(adapter));
}

}  // namespace

bool makes_classifier(const std::string& adapter) {
  return adapter::read_config(adapter).task_type == "SEQ_CLS";
}

bool names_classifier(const std::string& directory) {
  const std::string file = base::join_path(directory, "config.json");
  if (!base::file_exists(file)) return false;  // refused by its name when the model is opened
  const base::Json config = base::read_json_file(file);
  if (!config.is_object() || !config.contains("architectures")) return false;
  const base::Json& all = config["architectures"];
  const base::Json& first = all.is_array() && !all.empty() ? all.front() : all;
  return first.is_string() && first.get<std::string>().ends_with("ForSequenceClassification");
}

int64_t adapter_embedding_rows(const config::Config& options) {
  const std::string adapter = adapter_path(options);
  return adapter.empty() ? 0 : adapter::embedding_rows(adapter);
}

std::string tokenizer_path(const std::string& model, const config::Config& options) {
  const std::string adapter = adapter_path(options);
  const bool own = !adapter.empty() && has_tokenizer(adapter);
  return own ? adapter : model;
}

engine::ModelSpec model_spec(std::string_view path, std::string_view dtype, const config::Config& options,
                             const Opening& how) {
  const std::string adapter = adapter_path(options);
  return {.path = path,
          .dtype = dtype,
          .use_cpu = options.get_bool("use_cpu"),
          .embedding_rows = how.embedding_rows,
          .seed = static_cast<uint64_t>(options.get_int("seed")),
          .quantization = config::quantization(options),
          .reward = how.reward,
          .head_follows = how.reward && !adapter.empty() && makes_classifier(adapter),
          .mapped = how.mapped,
          .bf16 = how.bf16};
}

EngineObject<engine::Model> open_model(const std::string& path, const config::Config& options,
                                       const Opening& how) {
  const std::string dtype = config::model_dtype(options);
  const std::string adapter = adapter_path(options);
  const engine::ModelSpec spec = model_spec(path, dtype, options, how);
  engine::Model* model = nullptr;
  engine::ErrorCapture error;
  engine::Engine& engine = process().engine();
  error.check(process().use_engine(Use::open, [&] { return engine.open_model(spec, &model, error); }));
  EngineObject<engine::Model> opened(model);
  if (!adapter.empty()) {
    error.check(process().use_engine(Use::open, [&] {
      const int32_t status = model->add_adapter("default", adapter, error);
      return status < 0 ? status : model->use_adapter("default", error);
    }));
  }
  return opened;
}

namespace {

// The tokens of another model have no rows here.
const config::Config& without_template_model(const config::Config& options) {
  if (data::names_template_model(config::data_arguments(options))) {
    fail_key(
        "chat_template_path",
        "chat_template_path: {}: a .jinja or .j2 file is accepted here; only training takes over the tokens "
        "of another model, so open the model that was trained",
        options.get("chat_template_path"));
  }
  return options;
}

}  // namespace

Model::Model(std::shared_ptr<Runtime> runtime, const std::string& path, const config::Config& options)
    : runtime_(std::move(runtime)),
      path_(std::filesystem::absolute(path).string()),
      options_(options),
      model_(open_model(path, without_template_model(options),
                        {adapter_embedding_rows(options), is_reward(path, options)})) {
  described_ = base::Json({{"parameters", model_->parameter_count()},
                           {"config", base::parse_json(model_->config_json(), "config.json")}})
                   .dump();
}

std::shared_ptr<Tokenizer> Model::tokenizer() {
  const auto lock = base::polled_lock(tokenizer_mutex_);
  if (!tokenizer_) tokenizer_ = open_tokenizer(tokenizer_path(path_, options_), options_);
  return tokenizer_;
}

std::string base_path(const std::string& path, config::Config& options) {
  if (!adapter::is_adapter(path)) return path;
  const std::string base = adapter::read_config(path).base_model_name_or_path;
  if (base.empty()) {
    fail(Status::not_found,
         "{}: is an adapter, and {} does not say of which model: give the model, and the adapter as "
         "adapter_name_or_path",
         path, adapter::kConfigFile);
  }
  options.set("adapter_name_or_path", path);
  return base;
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

}  // namespace trl::capi

using namespace trl::capi;

trl_status trl_model_open(trl_runtime* runtime, const char* path, const trl_config* options,
                          trl_model** out_model, trl_error** error) noexcept {
  return guard(
      error,
      [&] {
        need(out_model, "out_model");
        const std::string directory = path_of(path);
        auto held = runtime_of(runtime);
        const RuntimeScope scope(*held);
        trl::config::Config given = options_of(options);
        const std::string base = base_path(directory, given);
        *out_model = new trl_model(std::make_shared<Model>(held, base, given));
      },
      out_model);
}

trl_status trl_model_describe(const trl_model* model, const char** out_json, trl_error** error) noexcept {
  return guard(
      error,
      [&] {
        const auto shared = get(model, "model");
        need(out_json, "out_json");
        *out_json = shared->describe().c_str();
      },
      out_json);
}

namespace {

// body(Model&, engine::ErrorSink&), which no other call on the model runs beside.
template <typename Body>
void change(trl_model* model, Use use, const Body& body) {
  const auto shared = get(model, "model");
  const RuntimeScope scope(*shared->runtime());
  const std::unique_lock lock(shared->in_use(), std::try_to_lock);
  if (!lock) trl::fail(trl::Status::busy, "model is in use on another thread");
  trl::engine::ErrorCapture capture;
  capture.check(process().use_engine(use, [&] { return body(*shared, capture); }));
}

// Null: none.
std::string_view name_or_none(const char* name) {
  return name != nullptr ? text(name, "name") : std::string_view();
}

}  // namespace

trl_status trl_model_add_adapter(trl_model* model, const char* name, const char* path,
                                 trl_error** error) noexcept {
  return guard(error, [&] {
    const std::string directory = path_of(path);
    const std::string_view given = text(name, "name");
    change(model, Use::open, [&](Model& on, trl::engine::ErrorSink& sink) {
      return on.get().add_adapter(given, directory, sink);
    });
  });
}

trl_status trl_model_remove_adapter(trl_model* model, const char* name, trl_error** error) noexcept {
  return guard(error, [&] {
    const std::string_view given = text(name, "name");
    change(model, Use::open,
           [&](Model& on, trl::engine::ErrorSink& sink) { return on.get().remove_adapter(given, sink); });
  });
}

trl_status trl_model_use_adapter(trl_model* model, const char* name, trl_error** error) noexcept {
  return guard(error, [&] {
    change(model, Use::open, [&](Model& on, trl::engine::ErrorSink& sink) {
      return on.get().use_adapter(name_or_none(name), sink);
    });
  });
}

trl_status trl_model_merge_adapter(trl_model* model, const char* name, trl_error** error) noexcept {
  return guard(error, [&] {
    change(model, Use::open, [&](Model& on, trl::engine::ErrorSink& sink) {
      return on.get().merge_adapter(name_or_none(name), sink);
    });
  });
}

trl_status trl_model_save(trl_model* model, const char* path, const trl_config* options,
                          trl_error** error) noexcept {
  return guard(error, [&] {
    const std::string directory = path_of(path);
    const auto given = get_or_null(options, "options");
    const auto kind = save_kind(given ? given->copy().get("save.kind") : "model");
    change(model, Use::save, [&](Model& on, trl::engine::ErrorSink& sink) {
      const auto files = on.tokenizer()->get().files();
      std::vector<trl::engine::NamedBytes> named;
      for (const auto& [file, bytes] : files) named.push_back({file, bytes});
      return on.get().save(directory, kind, named, sink);
    });
  });
}

void trl_model_destroy(trl_model* model) noexcept { destroy(model); }
