// Chooses a token from a row of logits, or says how likely one is. Pure functions.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/generator.h"
#include "engine/sampling.h"

namespace trl::generate {

// Chooses the next token after `ids`: the prompt, whose length is `prompt`, and the completion so far.
// Greedy: the first maximum of the processed logits; else the inverse of the cumulative distribution at
// `draw`, in [0, 1), in order of ids. allowed: what the constraint allows here; null: there is none. Returns
// why there is no token, a literal; empty: there is.
std::string_view choose_token(std::span<const float> logits, std::span<const int32_t> ids, size_t prompt,
                              const engine::Sampling& sampling, double draw, engine::Token& token,
                              const engine::AllowedIds* allowed = nullptr);

// Sets the log-probability of token.id, its rank and the `best` most likely ids, in the distribution of the
// logits as they are at the temperature, which is above 0.
void score_id(std::span<const float> logits, int64_t best, double temperature, engine::PromptToken& token);

}  // namespace trl::generate
