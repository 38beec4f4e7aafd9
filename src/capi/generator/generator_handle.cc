#include "capi/generator/generator_handle.h"

#include "base/error.h"
#include "base/json/json.h"
#include "capi/callback.h"
#include "config/generation/generation_kwargs.h"
#include "run/complete/open_generator.h"
#include "run/complete/request_options.h"

namespace trl::capi {

namespace {

using run::End;

run::OnToken told(trl_token_fn on_token, void* user_data) {
  if (on_token == nullptr) return nullptr;
  return [=](size_t number, int32_t id, const std::string& piece, double log_probability) {
    return call_host("token", [&] {
      return on_token(user_data, number, id, piece.c_str(), piece.size(), log_probability);
    });
  };
}

// Runs body with the options and their generation_kwargs, whose errors name the entry.
template <class Body>
auto with_entry_names(const config::Config& given, const Body& body) {
  return config::with_entry_names(given, "generate.generation_kwargs",
                                  [&] { return body(config::with_generation_kwargs(given)); });
}

base::Json json_of(const run::Weights& weights) {
  const auto known = [](int64_t version) { return version >= 0 ? base::Json(version) : base::Json(); };
  return {{"adapter", weights.adapter.empty() ? base::Json() : base::Json(weights.adapter)},
          {"version", known(weights.version)},
          {"last_version", known(weights.last_version)}};
}

base::Json pairs_of(const std::vector<engine::Ranked>& best) {
  base::Json pairs = base::Json::array();
  for (const engine::Ranked& one : best) pairs.push_back({one.id, one.log_probability});
  return pairs;
}

// The ids of a prompt with their log-probabilities: each first the prompt's own, then the most likely others,
// as [id, log-probability, rank]. The first id has none before it.
base::Json prompt_json(const std::vector<engine::PromptToken>& prompt) {
  base::Json all = base::Json::array({nullptr});
  for (const engine::PromptToken& token : prompt) {
    base::Json& place = all.emplace_back(base::Json::array());
    place.push_back({token.id, token.log_probability, token.rank});
    for (size_t i = 0; i < token.best.size(); ++i)
      if (token.best[i].id != token.id)
        place.push_back({token.best[i].id, token.best[i].log_probability, i + 1});
  }
  return all;
}

}  // namespace

const char* Completions::finish_reason(const run::Completion& completion) const {
  switch (completion.end) {
    case End::none:
      return nullptr;
    case End::stop:
      return of_requests_ ? "stop" : "eos_token";
    case End::stop_string:
      return of_requests_ ? "stop_string" : "stop_sequence";
    case End::length:
      return "length";
    case End::refused:
      return of_requests_ ? "cancelled" : "callback";
    case End::cancelled:
      return "cancelled";
    case End::failed:
      return "abort";
  }
  return nullptr;
}

const char* Completions::json(const run::Completion& completion, size_t* size) const {
  const char* const reason = finish_reason(completion);
  base::Json json = {{"text", completion.text},
                     {"token_ids", completion.ids},
                     {"finish_reason", reason != nullptr ? base::Json(reason) : base::Json()}};
  if (completion.cached) json["cached_tokens"] = *completion.cached;
  if (completion.stop) json["stop_reason"] = *completion.stop;
  if (completion.stop_id) json["stop_reason"] = *completion.stop_id;
  if (!completion.error.empty()) json["error"] = completion.error;
  if (completion.prompt != nullptr) json["prompt_logprobs"] = prompt_json(*completion.prompt);
  if (completion.weights) json["weights"] = json_of(*completion.weights);
  for (const engine::Token& token : completion.tokens) {
    json["logprobs"].push_back(token.whole_log_probability);
    json["sampling_logprobs"].push_back(token.log_probability);
    if (token.whole_best.empty()) continue;
    json["top_logprobs"].push_back(pairs_of(token.whole_best));
    json["sampling_top_logprobs"].push_back(pairs_of(token.best));
  }
  std::string text = json.dump(-1, ' ', false, base::Json::error_handler_t::replace);
  if (size != nullptr) *size = text.size();
  return kept_.keep(std::move(text));
}

run::Requests Generator::open(engine::Model& model) {
  run::Requests requests =
      run::open_requests(*model_->runtime(), model, *tokenizer_, model_->generator_spec());
  requests.tell_weights_of(model_->beside());
  return requests;
}

// Notes the use at the end of a call.
class Generator::UseNote {
 public:
  explicit UseNote(Generator& of) : of_(of) {}
  ~UseNote() {
    const engine::GenerationUse use = of_.requests_->use();
    const std::lock_guard lock(of_.use_mutex_);
    of_.use_ = use;
  }
  UseNote(const UseNote&) = delete;
  UseNote& operator=(const UseNote&) = delete;

 private:
  Generator& of_;
};

template <class Body>
auto Generator::with_requests(Body&& body, bool pausable) {
  const auto lock = sole_use(in_use_, "generator");
  return model_->use(
      Sharing::generation,
      [&](engine::Model& model, OpenRollout* rollout) {
        if (!requests_) requests_ = std::make_shared<run::Requests>(open(model));
        if (rollout != nullptr) rollout->uses(requests_);
        const UseNote note(*this);
        return body(model, *requests_);
      },
      pausable);
}

std::vector<run::Completion> Generator::generate(std::span<const std::string_view> prompts,
                                                 const config::Config& given, trl_token_fn on_token,
                                                 void* user_data) {
  return with_requests(
      [&](engine::Model& model, run::Requests&) {
        return with_entry_names(given, [&](const config::Config& options) {
          const std::vector<std::vector<int32_t>> ids = run::prompt_ids(*tokenizer_, prompts, options);
          run::Requests own = open(model);
          return run::complete(own, ids, run::request_options(options, *tokenizer_),
                               told(on_token, user_data));
        });
      },
      true);
}

int64_t Generator::add(const Prompt& prompt, const config::Config& given) {
  return with_requests([&](engine::Model&, run::Requests& requests) {
    return with_entry_names(given, [&](const config::Config& options) {
      run::RequestOptions request = run::request_options(options, *tokenizer_);
      request.count = run::completions_of(options);
      if (!prompt.text) {
        run::check_given_ids(options);
        return requests.add(prompt.ids, request);
      }
      return requests.add(run::prompt_ids(*tokenizer_, {&*prompt.text, 1}, options)[0], request);
    });
  });
}

bool Generator::step(trl_token_fn on_token, void* user_data) {
  return with_requests(
      [&](engine::Model&, run::Requests& requests) { return requests.step(told(on_token, user_data)); },
      true);
}

void Generator::extend(int64_t number, const Prompt& prompt, const config::Config& options) {
  with_requests([&](engine::Model&, run::Requests& requests) {
    const int64_t more = config::with_generation_kwargs(options).get_int("generate.max_new_tokens");
    if (!prompt.text) return requests.extend(number, prompt.ids, more);
    const text::Tokenizer& own = tokenizer_->get();
    requests.extend(number, own.encode(*prompt.text, false, own.given_of(prompt.text->size())), more);
  });
}

void Generator::cancel(int64_t first, int64_t count) {
  with_requests([&](engine::Model&, run::Requests& requests) { requests.cancel(first, count); });
}

std::vector<run::Completion> Generator::take(int64_t first, int64_t count) {
  return with_requests([&](engine::Model&, run::Requests& requests) { return requests.take(first, count); });
}

void Generator::release_memory() {
  with_requests([&](engine::Model&, run::Requests& requests) { requests.release_memory(); });
}

std::shared_ptr<engine::Constraint> Generator::constraint(const config::Config& options, bool make) const {
  return with_entry_names(options, [&](const config::Config& all) {
    run::Constraints& constraints = tokenizer_->constraints();
    return make ? constraints.prepared(all) : constraints.known(all);
  });
}

engine::GenerationUse Generator::use() const {
  const std::lock_guard lock(use_mutex_);
  return use_;
}

int64_t Generator::version_of(int64_t number) {
  const std::unique_lock lock(in_use_, std::try_to_lock);
  return lock && requests_ ? requests_->version_of(number) : -1;
}

}  // namespace trl::capi
