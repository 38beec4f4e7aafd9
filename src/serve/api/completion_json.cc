#include "serve/api/completion_json.h"

#include <fmt/format.h>

#include "serve/api/fields.h"
#include "serve/api/prompt_logprobs.h"

namespace trl::serve {

namespace {

size_t code_points(std::string_view text) {
  size_t count = 0;
  for (const char byte : text) count += (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  return count;
}

// Lists of log-probabilities as OpenAI's. offset: of the first token in its text, moved past the last.
base::Json logprobs_json(const std::vector<TokenLogprob>& tokens, const Sampling& sampling,
                         const ServedModel& model, size_t& offset) {
  base::Json offsets = base::Json::array(), values = base::Json::array(), texts = base::Json::array(),
             tops = base::Json::array();
  for (const TokenLogprob& token : tokens) {
    const std::string text = token_text(token.id, sampling, model);
    base::Json top = base::Json::object();
    for (const auto& [id, value] : ranked(token))
      top[token_text(id, sampling, model)] = number_or_null(value);
    offsets.push_back(offset);
    values.push_back(number_or_null(token.value));
    texts.push_back(text);
    tops.push_back(std::move(top));
    offset += code_points(text);
  }
  base::Json out = base::Json::object();
  out["text_offset"] = std::move(offsets);
  out["token_logprobs"] = std::move(values);
  out["tokens"] = std::move(texts);
  out["top_logprobs"] = std::move(tops);
  return out;
}

base::Json ids_or_null(const Ids& ids, bool wanted) { return wanted ? base::Json(ids) : base::Json(); }

size_t tokens_of(const std::vector<Ids>& prompts) {
  size_t tokens = 0;
  for (const Ids& ids : prompts) tokens += ids.size();
  return tokens;
}

base::Json frame(const CompletionsRequest& request) {
  base::Json out = base::Json::object();
  out["id"] = request.id;
  out["object"] = "text_completion";
  out["created"] = request.created;
  out["model"] = request.model;
  return out;
}

class Format final : public StreamFormat {
 public:
  Format(CompletionsRequest request, const ServedModel& model)
      : request_(std::move(request)),
        model_(model),
        offsets_(request_.prompts.size() * static_cast<size_t>(request_.sampling.n)),
        tokens_(offsets_.size()) {}

  std::vector<std::string> events(const Delta& delta) override {
    const Sampling& sampling = request_.sampling;
    const size_t prompt = delta.choice / static_cast<size_t>(sampling.n);
    tokens_[delta.choice] += delta.ids.size();
    if (delta.choice % static_cast<size_t>(sampling.n) == 0) cached_ += delta.cached_tokens;
    base::Json choice = base::Json::object();
    choice["index"] = delta.choice;
    choice["text"] = delta.text;
    choice["logprobs"] = sampling.logprobs
                             ? logprobs_json(delta.logprobs, sampling, model_, offsets_[delta.choice])
                             : base::Json();
    choice["finish_reason"] = delta.finish.empty() ? base::Json() : base::Json(delta.finish);
    choice["stop_reason"] = delta.stop_reason;
    choice["prompt_token_ids"] = ids_or_null(request_.prompts[prompt], sampling.token_ids && delta.first);
    choice["token_ids"] = ids_or_null(delta.ids, sampling.token_ids);
    if (!delta.finish.empty()) add_weights(delta.weights, choice);
    base::Json out = frame(request_);
    out["choices"] = base::Json::array();
    out["choices"].push_back(std::move(choice));
    if (request_.usage_always)
      out["usage"] = usage_json(request_.prompts[prompt].size(), tokens_[delta.choice], std::nullopt);
    else
      out["usage"] = nullptr;
    return {json_text(out)};
  }

  std::string last(const std::vector<size_t>& tokens) override {
    if (!request_.usage) return {};
    size_t all = 0;
    for (const size_t count : tokens) all += count;
    base::Json out = frame(request_);
    out["choices"] = base::Json::array();
    out["usage"] = usage_json(tokens_of(request_.prompts), all, cached_);
    return json_text(out);
  }

 private:
  const CompletionsRequest request_;
  const ServedModel& model_;
  std::vector<size_t> offsets_, tokens_;  // by choices
  int64_t cached_ = 0;
};

}  // namespace

std::string token_text(int32_t id, const Sampling& sampling, const ServedModel& model) {
  if (sampling.tokens_as_ids) return fmt::format("token_id:{}", id);
  // A model may have ids beyond those of its tokenizer.
  return id < model.vocab_size() ? model.decode({&id, 1}, false) : std::string();
}

void add_weights(const base::Json& weights, base::Json& choice) {
  if (!weights.is_null()) choice["weights"] = weights;
}

base::Json usage_json(size_t prompt_tokens, size_t completion_tokens, std::optional<int64_t> cached) {
  base::Json out = base::Json::object();
  out["prompt_tokens"] = prompt_tokens;
  out["total_tokens"] = prompt_tokens + completion_tokens;
  out["completion_tokens"] = completion_tokens;
  out["prompt_tokens_details"] = cached ? base::Json::object() : base::Json();
  if (cached) out["prompt_tokens_details"]["cached_tokens"] = *cached;
  return out;
}

int64_t cached_tokens(const std::vector<Completion>& completions, int64_t n) {
  int64_t cached = 0;
  for (size_t i = 0; i < completions.size(); i += static_cast<size_t>(n))
    cached += completions[i].cached_tokens;
  return cached;
}

Answer completions_answer(const CompletionsRequest& request, const ServedModel& model,
                          const std::vector<Completion>& completions) {
  const Sampling& sampling = request.sampling;
  base::Json choices = base::Json::array();
  size_t tokens = 0;
  for (size_t i = 0; i < completions.size(); ++i) {
    const Completion& completion = completions[i];
    size_t offset = 0;
    tokens += completion.ids.size();
    base::Json choice = base::Json::object();
    choice["index"] = i;
    choice["text"] = completion.text;
    choice["logprobs"] =
        sampling.logprobs ? logprobs_json(completion.logprobs, sampling, model, offset) : base::Json();
    choice["finish_reason"] = completion.finish;
    choice["stop_reason"] = completion.stop_reason;
    choice["token_ids"] = ids_or_null(completion.ids, sampling.token_ids);
    choice["prompt_logprobs"] = prompt_logprobs_json(completion, model);
    choice["prompt_token_ids"] =
        ids_or_null(request.prompts[i / static_cast<size_t>(sampling.n)], sampling.token_ids);
    add_weights(completion.weights, choice);
    choices.push_back(std::move(choice));
  }
  base::Json out = frame(request);
  out["choices"] = std::move(choices);
  out["service_tier"] = nullptr;
  out["system_fingerprint"] = nullptr;
  out["usage"] = usage_json(tokens_of(request.prompts), tokens, cached_tokens(completions, sampling.n));
  out["kv_transfer_params"] = nullptr;
  return {200, json_text(out)};
}

std::unique_ptr<StreamFormat> completions_format(CompletionsRequest request, const ServedModel& model) {
  return std::make_unique<Format>(std::move(request), model);
}

}  // namespace trl::serve
