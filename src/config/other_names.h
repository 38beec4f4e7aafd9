// Names that axolotl, LLaMA-Factory, mlx-lm, other tools and habit have for keys of the table. They are not
// accepted, because a name's meaning differs between those tools. An error answers each with the key.
#pragma once
#include <string>
#include <string_view>

#include "config/option.h"

namespace trl::config {

// Returns the names that others have for an option, with commas between; empty: none.
std::string_view other_names(const Option& option);

// Returns "'lr': unknown key; the key for it is learning_rate" for a key that is not in the table. trainer:
// the suggestion is one of its options; empty: an option of any trainer.
std::string unknown_key(std::string_view key, std::string_view trainer);

}  // namespace trl::config
