// Generation for some prompts, in one call.
#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <span>

#include "engine/engine.h"
#include "model/model.h"

namespace trl::generate {

// Generates for all prompts together, and passes tokens to the sink, those of a prompt in order. A prompt
// ends after max_new_tokens, at a stop id (which the sink gets as well), or when the sink says so. The
// log-probability, if requested, is that of the distribution the token was taken from; greedy: of the softmax
// of the (penalised) logits. The draw for token t of prompt p depends only on (seed, p, t). adapter: null:
// the model alone; sampling's name is not read. compute: bfloat16 over float32 weights is autocast.
void generate(const model::Model& model, const model::Adapter* adapter,
              std::span<const std::span<const int32_t>> prompts, const engine::Sampling& sampling,
              at::ScalarType compute, engine::TokenSink& sink);

}  // namespace trl::generate
