#include "serve/api/prompt.h"

#include <fmt/format.h>

#include "serve/api/fields.h"

namespace trl::serve {

namespace {

constexpr int64_t kUnlimited = 1 << 20;  // tokens, of a model without a known number of positions

}  // namespace

Ids read_ids(const base::Json& list, std::string_view name, const std::string& where,
             const ServedModel& model) {
  Ids ids;
  ids.reserve(list.size());
  for (const base::Json& id : list) {
    if (!id.is_number_integer() || id < 0 || id >= model.end_of_ids())
      throw Refusal(400,
                    fmt::format("{}[{}]: {} is not accepted; give token ids from 0 to {}", where, ids.size(),
                                shown(id), model.end_of_ids() - 1),
                    std::string(name));
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

std::vector<Ids> read_prompts(const base::Json* prompt, std::string_view name, const ServedModel& model,
                              bool add_special_tokens, const Limits& limits) {
  const std::string_view accepted = "a text, a list of texts, a list of token ids, or a list of such lists";
  if (prompt == nullptr)
    throw Refusal(400, fmt::format("{}: missing; give {}", name, accepted), std::string(name));
  std::vector<Ids> prompts;
  if (prompt->is_string()) {
    prompts.push_back(model.encode(prompt->get_ref<const std::string&>(), add_special_tokens));
  } else if (prompt->is_array() && !prompt->empty() && prompt->front().is_number()) {
    prompts.push_back(read_ids(*prompt, name, std::string(name), model));
  } else if (prompt->is_array() && !prompt->empty()) {
    if (static_cast<int64_t>(prompt->size()) > limits.max_prompts)
      throw Refusal(400,
                    fmt::format("{}: {} prompts; give at most {}", name, prompt->size(), limits.max_prompts),
                    std::string(name));
    for (const base::Json& one : *prompt) {
      if (one.is_string())
        prompts.push_back(model.encode(one.get_ref<const std::string&>(), add_special_tokens));
      else if (one.is_array())
        prompts.push_back(read_ids(one, name, fmt::format("{}[{}]", name, prompts.size()), model));
      else
        refuse_value(name, one, accepted);
    }
  } else {
    refuse_value(name, *prompt, accepted);
  }
  for (const Ids& ids : prompts)
    if (ids.empty())
      throw Refusal(400, fmt::format("{}: a prompt has no tokens; give one at least", name),
                    std::string(name));
  return prompts;
}

int64_t room_for(const std::vector<Ids>& prompts, std::optional<int64_t> given, const ServedModel& model,
                 std::string_view name) {
  size_t longest = 0;
  for (const Ids& ids : prompts) longest = std::max(longest, ids.size());
  const auto prompt = static_cast<int64_t>(longest);
  const int64_t most = model.max_length().value_or(prompt + kUnlimited);
  if (prompt >= most)
    throw Refusal(
        400,
        fmt::format("This model's maximum context length is {} tokens. However, your request has {} input "
                    "tokens. Please reduce the length of the input messages.",
                    most, prompt),
        "prompt");
  if (!given) return most - prompt;
  if (*given > most - prompt)
    throw Refusal(
        400,
        fmt::format("This model's maximum context length is {} tokens. However, you requested {} output "
                    "tokens and your prompt contains {} input tokens, for a total of {} tokens. Please "
                    "reduce the length of the input prompt or the number of requested output tokens.",
                    most, *given, prompt, prompt + *given),
        std::string(name));
  return *given;
}

}  // namespace trl::serve
