// Reads the prompts that trl generate completes: --prompt, --prompts FILE, or standard input.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace trl::cli {

// Throws Failure if there are no prompts, if a file cannot be read, and for a line that is not a prompt.
// chat: whether texts are a user's messages; true after the call if the prompts are rows with messages, as
// JSON for trl_generator_generate.
std::vector<std::string> read_prompts(const std::vector<std::string>& given,
                                      const std::optional<std::string>& file, bool& chat);

std::string standard_input();  // all of it, without the line end at its end

}  // namespace trl::cli
