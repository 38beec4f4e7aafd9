// trl_model_*.
#include "capi/model_handle.h"

#include <filesystem>

#include "base/json/json.h"
#include "base/threads/polled_lock.h"
#include "capi/config_handle.h"
#include "capi/guard.h"
#include "config/data_arguments.h"
#include "data/tokenizer/template_model.h"
#include "engine/error_capture.h"
#include "run/model_files.h"
#include "run/open_model.h"

namespace trl::capi {

namespace {

// Refuses a template model: this model has no rows for the tokens of another one.
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
      model_(run::open_model(*runtime_, path, without_template_model(options),
                             {run::adapter_embedding_rows(options), run::is_reward(path, options)})) {
  described_ = base::Json({{"parameters", model_->parameter_count()},
                           {"config", base::parse_json(model_->config_json(), "config.json")}})
                   .dump();
}

std::shared_ptr<run::Tokenizer> Model::tokenizer() {
  const auto lock = base::polled_lock(tokenizer_mutex_);
  if (!tokenizer_)
    tokenizer_ = run::open_tokenizer(run::tokenizer_path(path_, options_), options_, runtime_->log());
  return tokenizer_;
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
        const std::string base = trl::run::base_path(directory, given);
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

// Runs body(Model&, engine::ErrorSink&) while no other call uses the model.
template <typename Body>
void change(trl_model* model, Use use, const Body& body) {
  const auto shared = get(model, "model");
  const RuntimeScope scope(*shared->runtime());
  const std::unique_lock lock(shared->in_use(), std::try_to_lock);
  if (!lock) trl::fail(trl::Status::busy, "model is in use on another thread");
  trl::engine::ErrorCapture capture;
  capture.check(process().use_engine(use, [&] { return body(*shared, capture); }));
}

// Returns the name; null: no adapter.
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
    const auto kind = trl::run::save_kind(given ? given->copy().get("save.kind") : "model");
    change(model, Use::save, [&](Model& on, trl::engine::ErrorSink& sink) {
      const auto files = on.tokenizer()->get().files();
      std::vector<trl::engine::NamedBytes> named;
      for (const auto& [file, bytes] : files) named.push_back({file, bytes});
      return on.get().save(directory, kind, named, sink);
    });
  });
}

void trl_model_destroy(trl_model* model) noexcept { destroy(model); }
