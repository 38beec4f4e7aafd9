// The attention that a run asks for: attn_implementation, or the entry of that name in model_init_kwargs.
#pragma once
#include <string>
#include <string_view>

#include "config/config.h"

namespace trl::config {

struct AttentionArguments {
  std::string name;    // as given; empty: none was asked for
  std::string plugin;  // path of a shared library; empty: the built-in attention
};

// Throws Error(invalid_config), naming the nearest that works, for a name that this build does not have.
void check_attention(std::string_view key, const std::string& value);

// Throws the errors of check_attention, and Error(not_found) for a plug-in that does not exist.
AttentionArguments attention_arguments(const Config& config);

}  // namespace trl::config
