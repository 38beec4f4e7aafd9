// The prompts of a request: a text, texts, ids, or lists of ids.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "serve/engine/model.h"
#include "serve/options.h"

namespace trl::serve {

using Ids = std::vector<int32_t>;

// Returns token ids that the model has. name: of the field; where: the list in it. Throws Refusal(400).
Ids read_ids(const base::Json& list, std::string_view name, const std::string& where,
             const ServedModel& model);

// name: of the field. Throws Refusal(400).
std::vector<Ids> read_prompts(const base::Json* prompt, std::string_view name, const ServedModel& model,
                              bool add_special_tokens, const Limits& limits);

// Returns how many tokens the completions may have. given: what the request asks for; nullopt: what the
// context leaves. Throws Refusal(400) with vLLM's sentence if that is too much.
int64_t room_for(const std::vector<Ids>& prompts, std::optional<int64_t> given, const ServedModel& model,
                 std::string_view name);

}  // namespace trl::serve
