// Metrics of a micro-batch under the names of TRL's logs.
#pragma once
#include <string_view>
#include <utility>
#include <vector>

namespace trl::loss {

using Metrics = std::vector<std::pair<std::string_view, double>>;  // NaN: the micro-batch has no such value

}  // namespace trl::loss
