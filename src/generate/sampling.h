// Turns logits into the next token: transformers' logits processors in their order, then one draw. Pure
// functions.
#pragma once
#include <cstdint>
#include <span>

#include "engine/engine.h"

namespace trl::generate {

// Throws Error(invalid_config) naming the key.
void check_sampling(const engine::Sampling& sampling);

// Applies the repetition penalty over the ids of `previous`; then, unless greedy (temperature 0):
// temperature, top_k, top_p, min_p. Removed tokens get -inf; the largest is never removed.
void process_logits(std::span<float> logits, std::span<const int32_t> previous,
                    const engine::Sampling& sampling);

// Choices from processed logits without a NaN.
int32_t choose_greedy(std::span<const float> logits);  // the first maximum
// Inverts the cumulative distribution at `uniform`.
int32_t choose_sampled(std::span<const float> logits, double uniform);
// The log-probability of the id under the softmax.
float log_probability(std::span<const float> logits, int32_t id);

}  // namespace trl::generate
