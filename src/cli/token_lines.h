// Tokens as lines: the id, whether it is trained on, its text as JSON; coloured on a terminal.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace trl::cli {

// trained: nullopt where nothing is trained.
void print_token(int32_t id, std::optional<bool> trained, const std::string& text);

}  // namespace trl::cli
