#include "serve/api/prompt_logprobs.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/text/number.h"
#include "serve/api/completion_json.h"

namespace trl::serve {

namespace {

// Texts of ids, each decoded once.
class Texts {
 public:
  explicit Texts(const ServedModel& model) : model_(model) {}
  const std::string& of(int32_t id) {
    const auto [place, added] = texts_.try_emplace(id);
    if (added) place->second = token_text(id, {}, model_);
    return place->second;
  }

 private:
  const ServedModel& model_;
  std::unordered_map<int32_t, std::string> texts_;
};

}  // namespace

void read_prompt_logprobs(Fields& fields, Sampling& sampling, const Limits& limits, bool stream) {
  constexpr std::string_view kName = "prompt_logprobs";
  const std::optional<int64_t> count = fields.integer(kName);
  const auto temperature = fields.number("prompt_logprobs_temperature", {.low = 0, .above = true});
  if (!count) return;
  if (temperature)
    sampling.options["generate.prompt_logprobs_temperature"] = base::format_double(*temperature);
  if (stream)
    throw Refusal(400, "`prompt_logprobs` are not available when `stream=True`.", std::string(kName));
  sampling.options["generate.prompt_logprobs"] = std::to_string(most_likely(kName, *count, limits));
}

base::Json prompt_logprobs_json(const Completion& completion, const ServedModel& model) {
  if (completion.prompt.empty()) return nullptr;
  Texts texts(model);
  base::Json out = base::Json::array();
  for (const std::vector<RankedId>& place : completion.prompt) {
    if (place.empty()) {
      out.push_back(nullptr);
      continue;
    }
    base::Json ids = base::Json::object();
    for (const RankedId& one : place) {
      base::Json& value = ids[std::to_string(one.id)];
      value["logprob"] =
          std::isnan(one.value) ? base::Json() : base::Json(std::max(one.value, kLeastLogprob));
      value["rank"] = one.rank;
      value["decoded_token"] = texts.of(one.id);
    }
    out.push_back(std::move(ids));
  }
  return out;
}

}  // namespace trl::serve
