// Measurements of the engine alone, in this process.
#pragma once
#include "generate/form.h"
#include "generate/prompts.h"
#include "generate/settings.h"
#include "support/machine.h"

namespace trl::bench {

// Whole steps of decoding, by the number of sequences: prints a line each.
void measure_steps(const GenerateSettings& s, const Machine& machine, model::Model& model, const Form& form,
                   Prompts& prompts);
// A group of 8 completions of one prompt beside one completion of such a prompt, and a forward pass of it.
void measure_group(const GenerateSettings& s, model::Model& model, const Form& form, Prompts& prompts);
// The release of keys and values that fill their pool, and what is resident before it, after it and after
// another step.
void measure_release(const GenerateSettings& s, model::Model& model, const Form& form, Prompts& prompts);
// Prompt lookup beside the same texts without it: one completion that copies its prompt, and 8 that are drawn
// freely.
void measure_lookup(const GenerateSettings& s, model::Model& model, const Form& form, Prompts& prompts);
// Steps of training on 8 rows, with generation_exact and without, by turns.
void measure_exact(const GenerateSettings& s, const Form& form, Prompts& prompts);

}  // namespace trl::bench
