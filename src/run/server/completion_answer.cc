#include "run/server/completion_answer.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "run/rollout/json_number.h"

namespace trl::run {

namespace {

constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();

// A member of a JSON object; null: there is none.
const base::Json& member(const base::Json& object, const char* name) {
  static const base::Json none;
  if (!object.is_object()) return none;
  const auto found = object.find(name);
  return found != object.end() ? *found : none;
}

const base::Json& list(const base::Json& object, const char* name, size_t size) {
  const base::Json& value = member(object, name);
  if (!value.is_array() || value.size() != size)
    fail(Status::format, "the server's answer: {} is not a list of {}", name, size);
  return value;
}

float log_probability_of(const base::Json& value, size_t completion) {
  if (!value.is_number()) return kUnknown;
  const auto number = value.get<double>();
  if (!is_log_probability(number))
    fail(Status::format,
         "the server's answer: completion {}: {} is not a log-probability; accepted are null and float32 "
         "numbers up to 0",
         completion, number);
  return static_cast<float>(number);
}

class Reader {
 public:
  explicit Reader(const CompletionRequest& request)
      : request_(request), completions_(request.asked().prompts * request.count()) {}

  // vLLM's choices, which say their places.
  void read_choices(const base::Json& answer) {
    for (const base::Json& choice : list(answer, "choices", completions_.size())) {
      const base::Json& place = member(choice, "index");
      const bool known = place.is_number_integer() && place >= 0 && place < completions_.size();
      if (!known || !completions_[place.get<size_t>()].ids.empty())
        fail(Status::format, "the server's answer: index is {}; accepted are 0 to {}, each once",
             place.dump(), completions_.size() - 1);
      const base::Json& reason = member(choice, "finish_reason");
      if (reason == "abort" || reason == "error")
        fail(Status::io, "the server ended completion {}: {}", place.get<size_t>(),
             reason.get<std::string>());
      const auto index = place.get<size_t>();
      engine::Completion& own = completions_[index];
      own.ids = ids_of(member(choice, "token_ids"), "token_ids", index);
      check_prompt(member(choice, "prompt_token_ids"), "prompt_token_ids", index);
      const base::Json& logprobs = member(choice, "logprobs");
      if (!wants_logprobs()) continue;
      for (const base::Json& value : list(logprobs, "token_logprobs", own.ids.size()))
        own.log_probabilities.push_back(log_probability_of(value, index));
    }
  }

  // The answer of /generate/: log-probabilities of tokens by rank, the chosen one among them; early versions
  // give only those of the chosen ones.
  void read_old(const base::Json& answer) {
    const base::Json& all = list(answer, "completion_ids", completions_.size());
    const base::Json& prompts = member(answer, "prompt_ids");
    if (!prompts.is_null()) list(answer, "prompt_ids", request_.asked().prompts);
    for (size_t i = 0; i < completions_.size(); ++i) {
      engine::Completion& own = completions_[i];
      own.ids = ids_of(all[i], "completion_ids", i);
      if (prompts.is_array()) check_prompt(prompts[i / request_.count()], "prompt_ids", i);
      if (!wants_logprobs()) continue;
      const base::Json& values = list(answer, "logprobs", completions_.size())[i];
      const base::Json& tokens = member(answer, "logprob_token_ids");
      for (size_t t = 0; t < own.ids.size(); ++t) {
        const base::Json& value = at(values, t);
        own.log_probabilities.push_back(log_probability_of(
            value.is_array() ? chosen(value, at(at(tokens, i), t), own.ids[t]) : value, i));
      }
    }
  }

  // Returns a completion for each row.
  std::vector<engine::Completion> by_row() const {
    const RowGroups asked = request_.asked();
    std::vector<engine::Completion> rows(request_.prompts.ids.size());
    for (size_t prompt = 0; prompt < asked.prompts; ++prompt)
      for (size_t i = 0; i < asked.n; ++i)
        rows[asked.row(prompt, i)] =
            completions_[prompt * request_.count() + std::min(i, request_.count() - 1)];
    return rows;
  }

 private:
  bool wants_logprobs() const { return request_.options.sampling.log_probabilities; }

  static const base::Json& at(const base::Json& values, size_t place) {
    if (!values.is_array() || place >= values.size())
      fail(Status::format, "the server's answer: logprobs have not as many places as the completions");
    return values[place];
  }

  std::vector<int32_t> ids_of(const base::Json& values, const char* name, size_t completion) const {
    if (!values.is_array() || values.empty())
      fail(Status::format,
           "the server's answer: {} is not a list of token ids: TRL 1.16 needs a vLLM that has "
           "return_token_ids",
           name);
    if (const auto most = static_cast<uint64_t>(request_.options.sampling.max_new_tokens);
        values.size() > most)
      fail(Status::format,
           "the server's answer: completion {}: {} has {} ids; max_tokens asked for at most {}", completion,
           name, values.size(), most);
    std::vector<int32_t> ids;
    for (const base::Json& id : values) {
      if (!id.is_number_integer() || id < 0 || id >= request_.vocabulary)
        fail(Status::format, "the server's answer: {} is not a token of the model, whose ids are 0 to {}",
             id.dump(), request_.vocabulary - 1);
      ids.push_back(id.get<int32_t>());
    }
    return ids;
  }

  // given: null if the server does not say which prompt it completed.
  void check_prompt(const base::Json& given, const char* name, size_t completion) const {
    const std::vector<int32_t>& asked =
        request_.prompts.ids[request_.asked().row(completion / request_.count(), 0)];
    if (!given.is_null() && given != base::Json(asked))
      fail(Status::format, "the server's answer: completion {}: {} are not those of the prompt that was sent",
           completion, name);
  }

  static const base::Json& chosen(const base::Json& values, const base::Json& tokens, int32_t id) {
    static const base::Json none;
    for (size_t k = 0; tokens.is_array() && k < std::min(values.size(), tokens.size()); ++k)
      if (tokens[k] == id) return values[k];
    return none;
  }

  const CompletionRequest& request_;
  std::vector<engine::Completion> completions_;  // as they were asked for
};

}  // namespace

std::vector<engine::Completion> read_completions(const base::Json& answer, const CompletionRequest& request) {
  Reader reader(request);
  if (request.server.protocol == VllmServer::Protocol::old)
    reader.read_old(answer);
  else
    reader.read_choices(answer);
  return reader.by_row();
}

}  // namespace trl::run
