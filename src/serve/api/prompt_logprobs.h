// Log-probabilities of prompts: the field of requests, and vLLM's lists in answers.
#pragma once
#include "serve/api/completion.h"
#include "serve/api/sampling.h"
#include "serve/engine/model.h"

namespace trl::serve {

// Reads prompt_logprobs and prompt_logprobs_temperature. Throws Refusal(400), of streams too, whose answers
// have no place for them.
void read_prompt_logprobs(Fields& fields, Sampling& sampling, const Limits& limits, bool stream);

// Returns a list with an item for each token of the prompt: null for the first, then objects by token ids of
// {logprob, rank, decoded_token}; null if they were not asked for.
base::Json prompt_logprobs_json(const Completion& completion, const ServedModel& model);

}  // namespace trl::serve
