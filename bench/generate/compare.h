// Generation beside transformers and llama.cpp, each run in a process of its own, by turns.
#pragma once
#include "generate/prompts.h"
#include "generate/settings.h"
#include "support/scratch.h"

namespace trl::bench {

// Texts of equal lengths, 8 at a time.
void compare_batch(const GenerateSettings& s, const Scratch& scratch, Prompts& prompts);
// Texts of lognormal lengths: useful tokens a second.
void compare_texts(const GenerateSettings& s, const Scratch& scratch, Prompts& prompts);
// Steps of decoding by the number of sequences, in llama.cpp's types: F16, Q8_0 and Q4_0.
void compare_llama(const GenerateSettings& s, const Scratch& scratch, Prompts& prompts);

}  // namespace trl::bench
