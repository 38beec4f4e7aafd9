// Selects everything else that an adapter trains besides its factors: whole modules (modules_to_save), rows
// of tokens (trainable_token_indices) and biases of the base.
#pragma once
#include <span>

#include "adapter/target_modules.h"

namespace trl::adapter {

// selection: has its targets already. Throws Error(invalid_config) as select() does.
void select_whole(const config::LoraConfig& config, std::span<const Module> modules, Selection& selection);

}  // namespace trl::adapter
