// Answers and events of /v1/completions.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/api/sinks.h"

namespace trl::serve {

struct CompletionsRequest {
  std::string id, model;
  int64_t created = 0;
  std::vector<Ids> prompts;
  Sampling sampling;
  bool usage = false, usage_always = false;  // of streams: in a last event; in each
};

// Adds the member `weights` of a trainer's model to a choice that is over.
void add_weights(const base::Json& weights, base::Json& choice);
// cached: tokens of prompts that the model had computed before; nullopt: not known yet.
base::Json usage_json(size_t prompt_tokens, size_t completion_tokens, std::optional<int64_t> cached);
// Returns the cached tokens of the prompts of completions, n of each.
int64_t cached_tokens(const std::vector<Completion>& completions, int64_t n);
Answer completions_answer(const CompletionsRequest& request, const ServedModel& model,
                          const std::vector<Completion>& completions);
std::unique_ptr<StreamFormat> completions_format(CompletionsRequest request, const ServedModel& model);

// The text of a token in lists of log-probabilities: its own, or "token_id:5".
std::string token_text(int32_t id, const Sampling& sampling, const ServedModel& model);

}  // namespace trl::serve
