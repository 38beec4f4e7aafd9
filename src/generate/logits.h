// Changes logits before a token is chosen, as transformers' logits processors and vLLM do. Pure functions.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "engine/sampling.h"
#include "kernels/head/logit_row.h"

namespace trl::generate {

// The logit of a token that is not chosen.
inline constexpr float kRemoved = -std::numeric_limits<float>::infinity();

// Returns the ids that a constraint allows, of as many as there are logits. One that ends a completion is
// allowed if the text may end.
kernels::LogitBits allowed_bits(size_t logits, const engine::AllowedIds& allowed,
                                const engine::Sampling& sampling);

// Returns whether process_logits() can change anything.
bool changes_logits(const engine::Sampling& sampling);

// ids: the prompt, whose length is `prompt`, and the completion so far. In this order: allowed_ids,
// bad_words_ids, suppress_tokens, min_new_tokens, logit_bias, repetition_penalty, no_repeat_ngram_size,
// frequency_penalty and presence_penalty. Removed tokens get kRemoved.
void process_logits(std::span<float> logits, std::span<const int32_t> ids, size_t prompt,
                    const engine::Sampling& sampling);

}  // namespace trl::generate
