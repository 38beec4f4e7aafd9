// What trl generate is to complete: --prompt, --prompts FILE, or standard input.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace trl::cli {

// Throws Failure where there is none, where a file cannot be read, and for a line that is not a prompt.
std::vector<std::string> read_prompts(const std::vector<std::string>& given,
                                      const std::optional<std::string>& file);

}  // namespace trl::cli
