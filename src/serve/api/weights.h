// GET and POST /trl/weights..: the tensors of a model, and others in their place.
#pragma once
#include <memory>

#include "serve/context.h"
#include "serve/http/reply.h"

namespace trl::serve {

void list_weights(Context& context, const std::shared_ptr<Exchange>& exchange);
void replace_weights(Context& context, const std::shared_ptr<Exchange>& exchange);
// Gives a client on this machine memory to write a message into: {bytes} -> {token, path, bytes}.
void share_weights(Context& context, const std::shared_ptr<Exchange>& exchange);
// Replaces the weights by such a message: {token, bytes}; without bytes it fills all of the memory.
void commit_weights(Context& context, const std::shared_ptr<Exchange>& exchange);
// Routes of weights that come over a group of processes: throws Refusal(501).
void refuse_group(Context& context, const std::shared_ptr<Exchange>& exchange);
// Gives a request the right to replace them, and memory for its body. Throws Refusal(409) while another one
// replaces them.
void claim_weights(Context& context, Request& head);

}  // namespace trl::serve
