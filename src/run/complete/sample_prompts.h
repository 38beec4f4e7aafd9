// The prompts of sample_prompts: read from the list or the file, and as tokens.
#pragma once
#include <string>
#include <vector>

#include "base/json/json.h"
#include "config/sample_arguments.h"
#include "run/tokenizer.h"

namespace trl::run {

struct SamplePrompt {
  std::string where;  // for messages: "sample_prompts: prompts.jsonl:3"
  base::Json given;   // a text, or a list of messages
  base::Json tools;   // for a conversation: a list, or null
  std::vector<int32_t> ids = {};
};

// Reads the prompts, without ids. Empty if no samples are requested. Throws Error that names the key for a
// file that cannot be read, and for an invalid prompt.
std::vector<SamplePrompt> read_sample_prompts(const config::SampleArguments& arguments);

// Fills in the ids. Throws Error(invalid_config) if the tokenizer or its chat template does not take a
// prompt.
void encode(std::vector<SamplePrompt>& prompts, const Tokenizer& tokenizer);

// Throws Error(invalid_config) for a prompt that leaves the model no positions for its completion.
// model_config: config.json.
void check_positions(const std::vector<SamplePrompt>& prompts, int64_t max_new_tokens,
                     const base::Json& model_config);

}  // namespace trl::run
