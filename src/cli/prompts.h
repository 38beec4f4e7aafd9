// What trl generate is to complete: --prompt, --prompts FILE, or standard input.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace trl::cli {

// Throws Failure where there is none, where a file cannot be read, and for a line that is not a prompt. chat:
// whether texts are what a user says; true after the call if the prompts are rows with messages, as JSON for
// trl_generator_generate.
std::vector<std::string> read_prompts(const std::vector<std::string>& given,
                                      const std::optional<std::string>& file, bool& chat);

std::string standard_input();  // all of it, without the line end at its end

}  // namespace trl::cli
