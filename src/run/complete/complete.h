// Completes prompts: encodes them, and decodes the ids that the model adds. Reads the options generate.*: the
// ids of prompts, and how tokens are drawn.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "run/complete/requests.h"
#include "run/tokenizer.h"

namespace trl::run {

// Encodes a text as it is. If it spells out the begin token, the tokenizer adds none.
std::vector<int32_t> text_ids(const Tokenizer& tokenizer, std::string_view text);
// Encodes messages in the chat template, up to the beginning of the answer. tools: a list, or null;
// variables: an object for the template, or null.
std::vector<int32_t> conversation_ids(const Tokenizer& tokenizer, const base::Json& messages,
                                      const base::Json& tools = nullptr,
                                      const base::Json& variables = nullptr);

// Completes all prompts in one call, with requests to a generator that has no others. The options' count
// is not read. One that fails has the error in its completion. Throws Error naming a prompt that is refused.
std::vector<Completion> complete(Requests& requests, std::span<const std::vector<int32_t>> prompts,
                                 RequestOptions options, const OnToken& on_token = nullptr);

// Refuses options of the chat template for a prompt that is ids already. Throws Error(invalid_config).
void check_given_ids(const config::Config& options);

// Returns the ids of each prompt, once for each of its completions.
std::vector<std::vector<int32_t>> prompt_ids(const Tokenizer& tokenizer,
                                             std::span<const std::string_view> prompts,
                                             const config::Config& options);

}  // namespace trl::run
