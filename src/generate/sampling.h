// From logits to the next token: transformers' logits processors in their order, then one draw. Pure
// functions.
#pragma once
#include <cstdint>
#include <span>

#include "engine/engine.h"

namespace trl::generate {

// Throws Error(invalid_config) naming the key.
void check_sampling(const engine::Sampling& sampling);

// Repetition penalty over the ids of `previous`; then, unless greedy (temperature 0): temperature, top_k,
// top_p, min_p. Removed tokens get -inf; the largest never is removed.
void process_logits(std::span<float> logits, std::span<const int32_t> previous,
                    const engine::Sampling& sampling);

// Logits without a NaN, as processed.
int32_t choose_greedy(std::span<const float> logits);  // the first maximum
int32_t choose_sampled(std::span<const float> logits,
                       double uniform);                            // inverse of the cumulative distribution
float log_probability(std::span<const float> logits, int32_t id);  // of the softmax

}  // namespace trl::generate
