#include "run/server/completion_request.h"

#include <set>
#include <utility>

#include "base/error.h"

namespace trl::run {

namespace {

bool same(const engine::PromptRows& prompts, size_t a, size_t b) { return prompts.ids[a] == prompts.ids[b]; }

// Ids of the vocabulary at which a completion ends. The server is told all of them, so that it ends where
// the engine would, whatever ends it knows of.
base::Json ends_of(const RequestOptions& options, int64_t vocabulary) {
  const engine::Sampling& own = options.sampling;
  std::set<int32_t> ends;
  for (const auto* const list : {&own.stop_ids, &own.eos_ids, &own.own_end_ids})
    for (const int32_t id : *list)
      if (id < vocabulary) ends.insert(id);
  return ends;
}

// The members of vLLM's SamplingParams that /generate/ takes only in generation_kwargs.
void add_more(base::Json& body, const RequestOptions& options, int64_t vocabulary) {
  const engine::Sampling& own = options.sampling;
  body["stop_token_ids"] = ends_of(options, vocabulary);
  if (!options.stops.empty()) body["stop"] = options.stops;
  if (own.own_end_ids.empty()) body["ignore_eos"] = true;
  if (own.min_new_tokens > 0) body["min_tokens"] = own.min_new_tokens;
  if (!own.allowed_ids.empty()) body["allowed_token_ids"] = own.allowed_ids;
  if (own.frequency_penalty != 0) body["frequency_penalty"] = own.frequency_penalty;
  if (own.presence_penalty != 0) body["presence_penalty"] = own.presence_penalty;
  if (!own.logit_bias.empty()) body["logit_bias"] = base::Json::object();
  for (const auto& [id, bias] : own.logit_bias) body["logit_bias"][std::to_string(id)] = bias;
}

}  // namespace

RowGroups groups_of_rows(const engine::PromptRows& prompts, size_t n, bool apart) {
  const size_t rows = prompts.ids.size();
  RowGroups groups{n == 0 ? 0 : rows / n, n, apart};
  bool whole = n > 0 && groups.prompts * n == rows;
  for (size_t prompt = 0; whole && prompt < groups.prompts; ++prompt)
    for (size_t i = 1; whole && i < n; ++i)
      whole = same(prompts, groups.row(prompt, 0), groups.row(prompt, i));
  return whole ? groups : RowGroups{rows, 1, false};
}

void check_request(const RequestOptions& request) {
  const engine::Sampling& own = request.sampling;
  const std::pair<const char*, bool> lacking[] = {{"suppress_tokens", !own.suppress_tokens.empty()},
                                                  {"bad_words", !own.bad_words_ids.empty()},
                                                  {"no_repeat_ngram_size", own.no_repeat_ngram_size != 0},
                                                  {"typical_p", own.typical_p != 1},
                                                  {"epsilon_cutoff", own.epsilon_cutoff != 0},
                                                  {"eta_cutoff", own.eta_cutoff != 0}};
  for (const auto& [name, used] : lacking) {
    if (used)
      fail_key("generation_kwargs",
               "generation_kwargs: {} is refused with vllm_mode: server, which is not asked for it: leave it "
               "out",
               name);
  }
}

const char* CompletionRequest::path() const {
  return server.protocol == VllmServer::Protocol::old ? "/generate/" : "/v1/completions";
}

base::Json CompletionRequest::body() const {
  const engine::Sampling& own = options.sampling;
  const bool old = server.protocol == VllmServer::Protocol::old;
  const RowGroups all = asked();
  base::Json ids = base::Json::array();
  for (size_t prompt = 0; prompt < all.prompts; ++prompt) ids.push_back(prompts.ids[all.row(prompt, 0)]);
  base::Json body = base::Json::object();
  if (!old) body["model"] = std::string(model);
  body[old ? "prompts" : "prompt"] = std::move(ids);
  if (!old) {
    body["return_token_ids"] = true;
    body["return_tokens_as_token_ids"] = true;
  }
  body["n"] = count();
  body["repetition_penalty"] = own.repetition_penalty;
  body["temperature"] = own.temperature;
  body["top_p"] = own.top_p;
  body["top_k"] = old && own.top_k == 0 ? int64_t{-1} : own.top_k;
  body["min_p"] = own.min_p;
  body["max_tokens"] = own.max_new_tokens;
  body["logprobs"] = own.log_probabilities ? base::Json(0) : base::Json();
  base::Json more = base::Json::object();
  add_more(more, options, vocabulary);
  // TRL's former protocol has a field only for a regex.
  const base::Json& structures = options.structured_outputs;
  if (old && structures.contains("regex"))
    body["structured_outputs_regex"] = structures["regex"];
  else if (!structures.is_null())
    more["structured_outputs"] = structures;
  if (old)
    body["generation_kwargs"] = std::move(more);
  else
    body.update(more);
  if (server.ours) {
    body["trl_seed"] = own.seed;
    body["trl_stream"] = first_stream;
    body["trl_whole_logprobs"] = true;
  }
  return body;
}

}  // namespace trl::run
