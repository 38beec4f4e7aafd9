// trl_model_*.
#include "capi/model.h"

#include <filesystem>

#include "base/json.h"
#include "capi/config.h"
#include "capi/guard.h"
#include "capi/progress.h"
#include "config/data_arguments.h"
#include "config/model_dtype.h"
#include "data/template_model.h"
#include "engine/error_capture.h"

namespace trl::capi {

EngineObject<engine::Model> open_model(const std::string& path, const config::Config& options,
                                       int64_t embedding_rows) {
  const std::string dtype = config::model_dtype(options);
  const engine::ModelSpec spec{path, dtype, options.get_bool("use_cpu"), embedding_rows,
                               static_cast<uint64_t>(options.get_int("seed"))};
  engine::Model* model = nullptr;
  engine::ErrorCapture error;
  engine::Engine& engine = process().engine();
  error.check(process().use_engine(Use::open, [&] { return engine.open_model(spec, &model, error); }));
  return EngineObject<engine::Model>(model);
}

namespace {

// The tokens of another model have no rows here.
const config::Config& without_template_model(const config::Config& options) {
  if (data::names_template_model(config::sft_data_arguments(options))) {
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
      model_(open_model(path, without_template_model(options))) {
  described_ = base::Json({{"parameters", model_->parameter_count()},
                           {"config", base::parse_json(model_->config_json(), "config.json")}})
                   .dump();
}

std::shared_ptr<Tokenizer> Model::tokenizer() {
  const std::lock_guard lock(tokenizer_mutex_);
  if (!tokenizer_) tokenizer_ = open_tokenizer(path_, options_);
  return tokenizer_;
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
        const LogScope scope(held->log());
        *out_model = new trl_model(
            watched(*held, [&] { return std::make_shared<Model>(held, directory, options_of(options)); }));
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

void trl_model_destroy(trl_model* model) noexcept { destroy(model); }
