// trl_model_*.
#include "capi/model.h"

#include "base/files.h"
#include "base/json.h"
#include "capi/config.h"
#include "capi/guard.h"
#include "engine/error_capture.h"

namespace trl::capi {

EngineObject<engine::Model> open_model(const std::string& path, const config::Config& options) {
  engine::Model* model = nullptr;
  engine::ErrorCapture error;
  error.check(process().engine().open_model({path, options.get("dtype"), options.get_bool("use_cpu")}, &model,
                                            error));
  return EngineObject<engine::Model>(model);
}

Model::Model(std::shared_ptr<Runtime> runtime, std::string path, const config::Config& options)
    : runtime_(std::move(runtime)),
      path_(std::move(path)),
      options_(options),
      model_(open_model(path_, options)) {
  described_ = base::Json({{"parameters", model_->parameter_count()},
                           {"config", base::parse_json(model_->config_json(), "config.json")}})
                   .dump();
}

std::shared_ptr<Tokenizer> Model::tokenizer() {
  const std::lock_guard lock(tokenizer_mutex_);
  if (!tokenizer_) tokenizer_ = open_tokenizer(path_, options_);
  return tokenizer_;
}

std::vector<int32_t> end_tokens(const std::string& model_path, const text::Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  const auto add = [&](const base::Json& id) {
    if (!id.is_number_integer()) return;
    const auto value = id.get<int64_t>();
    if (value >= 0 && value < tokenizer.vocab_size()) ids.push_back(static_cast<int32_t>(value));
  };
  if (const auto eos = tokenizer.special_id(tokenizer.special().eos)) ids.push_back(*eos);
  const std::string file = base::join_path(model_path, "generation_config.json");
  if (!base::file_exists(file)) return ids;
  const base::Json config = base::read_json_file(file);
  const auto found = config.is_object() ? config.find("eos_token_id") : config.end();
  if (found == config.end()) return ids;
  if (!found->is_array())
    add(*found);
  else
    for (const base::Json& id : *found) add(id);
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
        *out_model = new trl_model(std::make_shared<Model>(std::move(held), directory, options_of(options)));
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
