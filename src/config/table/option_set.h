// Sets of options that are compared with a configuration (estimate.compare).
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "config/config.h"

namespace trl::config {

// The accepted value, in the option table, of a list of such sets.
inline constexpr std::string_view kOptionSets = "key=value";

// Parses one set as written, "optim=adamw_8bit lora_target_modules=[q_proj, v_proj]" or "{optim:
// adamw_8bit}", into an object of key and value. Text in brackets or quotes is one value. Keys and values are
// not checked. Throws Error(invalid_config) naming key.
base::Json parse_option_set(std::string_view text, std::string_view key);

struct OptionSet {
  std::string name;  // "optim: adamw_8bit, gradient_checkpointing: false"
  std::vector<std::pair<std::string, std::string>> options;
};
std::vector<OptionSet> option_sets(const Config& config, std::string_view key);
OptionSet option_set(const base::Json& set);  // from the result of parse_option_set

// Returns config with the options of the set, replacing its values under their keys. Throws the errors of
// Config::set, and refuses a key that is not an option of a training run.
Config with_options(Config config, const OptionSet& set);

}  // namespace trl::config
