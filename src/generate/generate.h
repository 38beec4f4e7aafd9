// The decode loop: prompts in, tokens out one by one through engine::TokenSink.
#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <span>

#include "engine/engine.h"
#include "model/model.h"

namespace trl::generate {

// Prompts one after the other. A prompt ends after max_new_tokens, at a stop id (which the sink gets as
// well), or when the sink says so. The log-probability, where it is asked for, is that of the distribution
// the token was taken from; greedy: of the softmax of the (penalised) logits. The draw for token t of prompt
// p depends on (seed, p, t) alone. compute: bfloat16 over float32 weights is autocast.
void generate(model::Model& model, std::span<const std::span<const int32_t>> prompts,
              const engine::Sampling& sampling, at::ScalarType compute, engine::TokenSink& sink);

}  // namespace trl::generate
