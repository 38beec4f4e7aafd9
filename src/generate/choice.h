// Chooses a token from a row of logits. Pure functions.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/engine.h"

namespace trl::generate {

// Chooses the next token after `ids`: the prompt, whose length is `prompt`, and the completion so far.
// Greedy: the first maximum of the processed logits; else the inverse of the cumulative distribution at
// `draw`, in [0, 1), in order of ids. allowed: what the constraint allows here; null: there is none. Returns
// why there is no token, a literal; empty: there is.
std::string_view choose_token(std::span<const float> logits, std::span<const int32_t> ids, size_t prompt,
                              const engine::Sampling& sampling, double draw, engine::Token& token,
                              const engine::AllowedIds* allowed = nullptr);

}  // namespace trl::generate
