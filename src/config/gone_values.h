// Values that other releases of TRL, and LLaMA-Factory, accept for a key and that have another meaning today.
#pragma once
#include <string_view>

namespace trl::config {

// Says what became of the value: "it became a trainer of its own: ..."; empty: the value is not known.
std::string_view gone_value(std::string_view key, std::string_view value);

}  // namespace trl::config
