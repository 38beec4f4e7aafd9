// Completes prompts: encodes them, and decodes the ids that the model adds. Reads the options generate.*: the
// ids of prompts, and how tokens are drawn.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "engine/engine.h"
#include "run/environment.h"
#include "run/tokenizer.h"

namespace trl::run {

// Encodes a text as it is. If it spells out the begin token, the tokenizer adds none.
std::vector<int32_t> text_ids(const Tokenizer& tokenizer, std::string_view text);
// Encodes messages in the chat template, up to the beginning of the answer. tools: a list, or null;
// variables: an object for the template, or null.
std::vector<int32_t> conversation_ids(const Tokenizer& tokenizer, const base::Json& messages,
                                      const base::Json& tools = nullptr,
                                      const base::Json& variables = nullptr);

struct Completion {
  std::vector<int32_t> ids;
  std::string text;
  const char* finish_reason;               // a literal
  std::vector<engine::Token> tokens = {};  // with their log-probabilities, if the sampling has them
};

// Returns the completion as an object: text, token_ids and finish_reason; and if there are log-probabilities,
// a number or a list for each token: logprobs and top_logprobs of the whole distribution, sampling_logprobs
// and sampling_top_logprobs of the one that it was drawn from. A list has pairs of an id and its
// log-probability.
base::Json json_of(const Completion& completion);

// Receives each token with its text, as far as that is certain. Not 0: this prompt's completion ends.
using OnToken = std::function<int32_t(size_t prompt, int32_t id, const std::string& piece)>;

// sampling: its stop_ids are all that end a completion. stops: texts at which a completion ends. on_token: or
// null; its exceptions are thrown here.
std::vector<Completion> complete(Environment& environment, engine::Model& model, const Tokenizer& tokenizer,
                                 std::span<const std::vector<int32_t>> prompts,
                                 const engine::Sampling& sampling, const std::vector<std::string>& stops,
                                 const OnToken& on_token = nullptr);

// Returns the ids of each prompt, once for each of its completions.
std::vector<std::vector<int32_t>> prompt_ids(const Tokenizer& tokenizer,
                                             std::span<const std::string_view> prompts,
                                             const config::Config& options);

}  // namespace trl::run
