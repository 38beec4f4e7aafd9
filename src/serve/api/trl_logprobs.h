// POST /get_sequence_logprobs/ of TRL's own protocol (TRL 1.10 and before).
#pragma once
#include <memory>

#include "serve/context.h"
#include "serve/http/reply.h"

namespace trl::serve {

// Log-probabilities of given sequences, from the length of their prompts on. Nothing is gained by waiting for
// more requests, as TRL's server does: the model's thread computes what has come in the same steps.
void trl_sequence_logprobs(Context& context, const std::shared_ptr<Exchange>& exchange);

}  // namespace trl::serve
