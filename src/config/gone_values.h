// Values that other releases of TRL, and LLaMA-Factory, take for a key and that are something else today.
#pragma once
#include <string_view>

namespace trl::config {

// Says what the value is today: "it became a trainer of its own: ..."; empty: nothing is known of it.
std::string_view gone_value(std::string_view key, std::string_view value);

}  // namespace trl::config
