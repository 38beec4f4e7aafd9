// The fields that /v1/completions, /v1/chat/completions and TRL's routes share: how tokens are chosen, as the
// options generate.*.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "serve/api/fields.h"
#include "serve/api/response_format.h"
#include "serve/options.h"

namespace trl::serve {

struct Sampling {
  std::optional<std::string> model;            // the name that was asked for: a model's or an adapter's
  std::map<std::string, std::string> options;  // generate.* by key, over those of the model
  std::optional<Form> form;                    // that keeps texts to it, among the options
  int64_t n = 1;
  bool greedy = false;                // all n are equal: one is computed
  std::optional<int64_t> max_tokens;  // nullopt: what the context leaves
  int64_t stream = 0;                 // number of the first completion's draws
  std::optional<int64_t> logprobs;    // so many most likely tokens; 0: only the chosen one
  bool whole_logprobs = false;        // of the whole distribution, not of the one that tokens are drawn from
  bool token_ids = false;             // ids beside texts
  bool tokens_as_ids = false;         // "token_id:5" in place of a token's text
};

// Reads all shared fields but max_tokens and logprobs. model: has the values for fields that are missing.
// Throws Refusal(400).
Sampling read_sampling(Fields& fields, const Limits& limits, const ModelOptions& model);

// Returns a number of most likely tokens; -1: as many as there may be. name: of the field, for messages.
// Throws Refusal(400).
int64_t most_likely(std::string_view name, int64_t count, const Limits& limits);
// Sets it for the tokens of completions.
void set_logprobs(Sampling& sampling, std::string_view name, std::optional<int64_t> count,
                  const Limits& limits);

}  // namespace trl::serve
