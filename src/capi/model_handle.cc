// trl_model_*.
#include "capi/model_handle.h"

#include <algorithm>

#include "base/files/host_files.h"
#include "base/json/json.h"
#include "base/threads/polled_lock.h"
#include "capi/config_handle.h"
#include "capi/guard.h"
#include "config/data_arguments.h"
#include "data/row/row_text.h"
#include "data/tokenizer/open_tokenizer.h"
#include "engine/error_capture.h"
#include "run/complete/complete.h"
#include "run/convert_model.h"
#include "run/open_model.h"

namespace trl::capi {

namespace {

// Refuses a template model: this model has no rows for the tokens of another one.
const config::Config& without_template_model(const config::Config& options) {
  if (data::names_template_model(config::data_arguments(options))) {
    fail_key("chat_template_path",
             "chat_template_path: {}: a .jinja or .j2 file is accepted here; only training takes over the "
             "tokens of another model, so open the model that was trained",
             options.get("chat_template_path"));
  }
  return options;
}

std::vector<int32_t> scored_ids(const run::Tokenizer& tokenizer, std::string_view text, int32_t form,
                                const std::string& name) {
  if (form == TRL_TEXT_AS_IS) return run::text_ids(tokenizer, text);
  if (form == TRL_TEXT_CONVERSATION) {
    base::Json json = base::parse_json(text, name);
    if (json.is_array()) json = base::Json{{"messages", std::move(json)}};
    return tokenizer.encode_conversation(json);
  }
  if (form != TRL_TEXT_ANSWER)
    fail(Status::invalid_argument,
         "form is {}; accepted: TRL_TEXT_ANSWER, TRL_TEXT_CONVERSATION, TRL_TEXT_AS_IS", form);
  const text::Tokenizer& own = tokenizer.get();
  const bool ended = !own.special().eos;
  return own.encode(ended ? std::string(text) : data::with_eos(own, std::string(text)), true,
                    own.given_of(text.size()));
}

// Warns of positions that the model never saw in training.
void warn_of_length(Model& model, const std::vector<std::vector<int32_t>>& ids) {
  const auto size = [](const std::vector<int32_t>& one) { return std::ssize(one); };
  const auto longest = std::ranges::max_element(ids, {}, size);
  const int64_t positions = model.get().positions();
  if (longest == ids.end() || size(*longest) <= positions) return;
  model.runtime()->log().warning(
      "score",
      "texts[{}] has {} tokens, and the model has {} positions: the score of a longer "
      "text is not to be relied on",
      longest - ids.begin(), size(*longest), positions);
}

std::vector<float> score(Model& model, const std::vector<std::vector<int32_t>>& ids,
                         const config::Config& options) {
  const std::vector<std::span<const int32_t>> spans(ids.begin(), ids.end());
  const engine::ScoreSpec spec{spans, options.get_optional_bool("bf16").value_or(false),
                               options.get_int("per_device_eval_batch_size")};
  std::vector<float> scores(ids.size());
  const auto lock = sole_use(model.in_use(), "model");
  engine::ErrorCapture error;
  error.check(
      process().use_engine(Use::evaluate, [&] { return model.get().score(spec, scores.data(), error); }));
  warn_of_length(model, ids);
  return scores;
}

// Runs body(Model&, engine::ErrorSink&) while no other call uses the model.
template <typename Body>
void change(trl_model* model, Use use, const Body& body) {
  const auto shared = get(model, "model");
  const RuntimeScope scope(*shared->runtime());
  const auto lock = sole_use(shared->in_use(), "model");
  engine::ErrorCapture capture;
  capture.check(process().use_engine(use, [&] { return body(*shared, capture); }));
}

// Returns the name; null: no adapter.
std::string_view name_or_none(const char* name) {
  return name != nullptr ? text(name, "name") : std::string_view();
}

}  // namespace

Model::Model(std::shared_ptr<Runtime> runtime, const std::string& path, const config::Config& options)
    : runtime_(std::move(runtime)),
      source_(base::absolute_path(path)),
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
    tokenizer_ = run::open_tokenizer(run::tokenizer_source(source_, options_), options_, runtime_->log());
  return tokenizer_;
}

}  // namespace trl::capi

using namespace trl::capi;

trl_status trl_model_open(trl_runtime* runtime, const char* path, const trl_config* options,
                          trl_model** out_model, trl_error** error) noexcept {
  return guard(error, out_model, [&] {
    need(out_model, "out_model");
    const std::string directory = path_of(path);
    auto held = runtime_of(runtime);
    const RuntimeScope scope(*held);
    trl::config::Config given = options_of(options);
    const std::string base = trl::run::base_path(directory, given);
    *out_model = new trl_model(std::make_shared<Model>(held, base, given));
  });
}

trl_status trl_model_describe(const trl_model* model, const char** out_json, trl_error** error) noexcept {
  return guard<From::anywhere>(error, out_json, [&] {
    const auto shared = get(model, "model");
    need(out_json, "out_json");
    *out_json = shared->describe().c_str();
  });
}

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
    const auto kind = trl::run::save_kind(options_of(options).get("save.kind"));
    change(model, Use::save, [&](Model& on, trl::engine::ErrorSink& sink) {
      const auto files = on.tokenizer()->get().files();
      std::vector<trl::engine::NamedBytes> named;
      for (const auto& [file, bytes] : files) named.push_back({file, bytes});
      return on.get().save(directory, kind, named, sink);
    });
  });
}

trl_status trl_model_score(trl_model* model, const char* const* texts, const size_t* lengths, size_t count,
                           int32_t form, const trl_config* options, float* scores,
                           trl_error** error) noexcept {
  return guard(error, [&] {
    const auto shared = get(model, "model");
    if (count > 0) need(texts, "texts");
    if (count > 0) need(scores, "scores");
    const RuntimeScope scope(*shared->runtime());
    std::vector<std::vector<int32_t>> ids;
    for (size_t i = 0; i < count; ++i) {
      const std::string name = fmt::format("texts[{}]", i);
      need(texts[i], name);
      const size_t size = lengths != nullptr ? lengths[i] : std::char_traits<char>::length(texts[i]);
      ids.push_back(scored_ids(*shared->tokenizer(), utf8(texts[i], size, name), form, name));
      if (ids.back().empty()) trl::fail(trl::Status::invalid_argument, "{} has no token to score", name);
    }
    const std::vector<float> all = score(*shared, ids, options_of(options));
    std::ranges::copy(all, scores);
  });
}

trl_status trl_model_convert(trl_runtime* runtime, const char* path, const char* target,
                             const trl_config* options, trl_error** error) noexcept {
  return guard(error, [&] {
    const std::string from = path_of(path), to = path_of(target, "target");
    const auto held = runtime_of(runtime);
    const RuntimeScope scope(*held);
    trl::run::convert_model(*held, from, to, options_of(options));
  });
}

void trl_model_destroy(trl_model* model) noexcept { destroy(model); }
