// trl_model_*.
#include "capi/model/model_handle.h"

#include <algorithm>

#include "base/files/host_files.h"
#include "base/json/json.h"
#include "base/threads/polled_lock.h"
#include "capi/config_handle.h"
#include "capi/guard.h"
#include "config/dataset/data_arguments.h"
#include "data/row/row_text.h"
#include "data/tokenizer/open_tokenizer.h"
#include "run/complete/complete.h"
#include "run/complete/open_generator.h"
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
void warn_of_length(engine::Model& model, const std::vector<std::vector<int32_t>>& ids, RuntimeLog& log) {
  const auto size = [](const std::vector<int32_t>& one) { return std::ssize(one); };
  const auto longest = std::ranges::max_element(ids, {}, size);
  const int64_t positions = model.positions();
  if (longest == ids.end() || size(*longest) <= positions) return;
  log.warning("score",
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
  model.ask(Sharing::score, Use::evaluate, [&](engine::Model& of, engine::ErrorSink& error) {
    const int32_t status = of.score(spec, scores.data(), error);
    if (status >= 0) warn_of_length(of, ids, model.runtime()->log());
    return status;
  });
  return scores;
}

// Returns the name; null: no adapter.
std::string_view name_or_none(const char* name) {
  return name != nullptr ? text(name, "name") : std::string_view();
}

}  // namespace

void Model::describe_as(engine::Model& model) {
  described_ = base::Json({{"parameters", model.parameter_count()},
                           {"config", base::parse_json(model.config_json(), "config.json")}})
                   .dump();
}

OpenedModel::OpenedModel(std::shared_ptr<Runtime> runtime, const std::string& path,
                         const config::Config& options)
    : runtime_(std::move(runtime)),
      source_(base::absolute_path(path)),
      options_(options),
      scores_(run::is_reward(path, options)),
      model_(run::open_model(*runtime_, path, without_template_model(options),
                             {run::adapter_embedding_rows(options), scores_})) {
  describe_as(*model_);
}

std::shared_ptr<run::Tokenizer> OpenedModel::tokenizer() {
  const auto lock = base::polled_lock(tokenizer_mutex_);
  if (!tokenizer_)
    tokenizer_ = run::open_tokenizer(run::tokenizer_source(source_, options_), options_, runtime_->log());
  return tokenizer_;
}

engine::GeneratorSpec OpenedModel::generator_spec() {
  engine::GeneratorSpec spec = run::generator_spec(*runtime_, options_);
  spec.sleeps = true;  // copies of its weights serve its generators alone
  return spec;
}

void OpenedModel::add_adapter(const std::string& name, const std::string& directory) {
  ask(Sharing::none, Use::open, [&](engine::Model& model, engine::ErrorSink& error) {
    return model.add_adapter(name, directory, error);
  });
}

void OpenedModel::remove_adapter(std::string_view name) {
  ask(Sharing::none, Use::open,
      [&](engine::Model& model, engine::ErrorSink& error) { return model.remove_adapter(name, error); });
}

void OpenedModel::run(Sharing sharing, bool /*pausable*/, const Task& task) {
  check_entry();  // a rollout is written with generators of its trainer
  const RuntimeScope scope(*runtime_);
  const auto lock = sharing == Sharing::generation ? base::polled_lock(in_use_) : sole_use(in_use_, "model");
  task(*model_, nullptr);
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
    *out_model = new trl_model(std::make_shared<OpenedModel>(held, base, given));
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
    const std::string directory = path_of(path), given(text(name, "name"));
    get(model, "model")->add_adapter(given, directory);
  });
}

trl_status trl_model_remove_adapter(trl_model* model, const char* name, trl_error** error) noexcept {
  return guard(error, [&] { get(model, "model")->remove_adapter(text(name, "name")); });
}

trl_status trl_model_use_adapter(trl_model* model, const char* name, trl_error** error) noexcept {
  return guard(error, [&] {
    const auto shared = get(model, "model");
    shared->need_own("trl_model_use_adapter",
                     "a run computes with the adapter that it trains, and generate.adapter names another one "
                     "for completions");
    shared->ask(Sharing::none, Use::open, [&](trl::engine::Model& on, trl::engine::ErrorSink& sink) {
      return on.use_adapter(name_or_none(name), sink);
    });
  });
}

trl_status trl_model_merge_adapter(trl_model* model, const char* name, trl_error** error) noexcept {
  return guard(error, [&] {
    const auto shared = get(model, "model");
    shared->need_own(
        "trl_model_merge_adapter",
        "a run trains the adapter and its weights apart: trl_trainer_save with save.kind: merged "
        "saves them merged");
    shared->ask(Sharing::none, Use::open, [&](trl::engine::Model& on, trl::engine::ErrorSink& sink) {
      return on.merge_adapter(name_or_none(name), sink);
    });
  });
}

trl_status trl_model_save(trl_model* model, const char* path, const trl_config* options,
                          trl_error** error) noexcept {
  return guard(error, [&] {
    const std::string directory = path_of(path);
    const auto kind = trl::run::save_kind(options_of(options).get("save.kind"));
    const auto shared = get(model, "model");
    shared->need_own("trl_model_save", "trl_trainer_save saves it with the state of its run");
    shared->ask(Sharing::none, Use::save, [&](trl::engine::Model& on, trl::engine::ErrorSink& sink) {
      const auto files = shared->tokenizer()->get().files();
      std::vector<trl::engine::NamedBytes> named;
      for (const auto& [file, bytes] : files) named.push_back({file, bytes});
      return on.save(directory, kind, named, sink);
    });
  });
}

trl_status trl_model_score(trl_model* model, const char* const* texts, const size_t* lengths, size_t count,
                           int32_t form, const trl_config* options, float* scores,
                           trl_error** error) noexcept {
  return guard(error, [&] {
    const auto shared = get(model, "model");
    elements(texts, count, "texts");
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
