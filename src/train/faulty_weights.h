// Finds weights that are not finite, after a loss was not finite.
#pragma once
#include <string>
#include <string_view>

#include "model/model.h"

namespace trl::train {

// Follows the name of such a weight.
inline constexpr std::string_view kGiveFinite = ": give a model whose weights are finite";

// Names the first such number of the model and its adapters, "model.norm.weight[7] is nan"; empty: all are
// finite. Reads all weights.
std::string faulty_weight(model::Model& model);

}  // namespace trl::train
