#include "run/server/completion_answer.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

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

float number(const base::Json& value) {
  return value.is_number() ? static_cast<float>(value.get<double>()) : kUnknown;
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
      engine::Completion& own = completions_[place.get<size_t>()];
      own.ids = ids_of(member(choice, "token_ids"), "token_ids");
      const base::Json& logprobs = member(choice, "logprobs");
      if (!wants_logprobs()) continue;
      for (const base::Json& value : list(logprobs, "token_logprobs", own.ids.size()))
        own.log_probabilities.push_back(number(value));
    }
  }

  // The answer of /generate/: log-probabilities of tokens by rank, the chosen one among them; early versions
  // give only those of the chosen ones.
  void read_old(const base::Json& answer) {
    const base::Json& all = list(answer, "completion_ids", completions_.size());
    for (size_t i = 0; i < completions_.size(); ++i) {
      engine::Completion& own = completions_[i];
      own.ids = ids_of(all[i], "completion_ids");
      if (!wants_logprobs()) continue;
      const base::Json& values = list(answer, "logprobs", completions_.size())[i];
      const base::Json& tokens = member(answer, "logprob_token_ids");
      for (size_t t = 0; t < own.ids.size(); ++t) {
        const base::Json& value = at(values, t);
        own.log_probabilities.push_back(value.is_array() ? chosen(value, at(at(tokens, i), t), own.ids[t])
                                                         : number(value));
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

  std::vector<int32_t> ids_of(const base::Json& values, const char* name) const {
    if (!values.is_array() || values.empty())
      fail(Status::format,
           "the server's answer: {} is not a list of token ids: TRL 1.16 needs a vLLM that has "
           "return_token_ids",
           name);
    std::vector<int32_t> ids;
    for (const base::Json& id : values) {
      if (!id.is_number_integer() || id < 0 || id >= request_.vocabulary)
        fail(Status::format, "the server's answer: {} is not a token of the model, whose ids are 0 to {}",
             id.dump(), request_.vocabulary - 1);
      ids.push_back(id.get<int32_t>());
    }
    return ids;
  }

  static float chosen(const base::Json& values, const base::Json& tokens, int32_t id) {
    for (size_t k = 0; tokens.is_array() && k < std::min(values.size(), tokens.size()); ++k)
      if (tokens[k] == id) return number(values[k]);
    return kUnknown;
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
