// The prompts of sample_prompts, read from the list or the file, and as tokens.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "base/place.h"
#include "config/config.h"
#include "config/training_arguments.h"
#include "run/tokenizer.h"

namespace trl::run {

struct SamplePrompt {
  std::string where;  // for messages: "sample_prompts: prompts.jsonl:3"
  base::Json given;   // a text, or a list of messages
  base::Json tools;   // for a conversation: a list, or null
  std::vector<int32_t> ids = {};
  Place place = {};  // in a file
};

// Reads the prompts, without ids. Empty if no samples are requested. Throws Error that names the key for a
// file that cannot be read, and for an invalid prompt.
std::vector<SamplePrompt> read_sample_prompts(const config::SampleArguments& arguments);

// Reads and encodes them. Throws the same for a prompt that the tokenizer or its chat template does not take.
std::vector<SamplePrompt> sample_prompts(const config::Config& config, const Tokenizer& tokenizer);

}  // namespace trl::run
