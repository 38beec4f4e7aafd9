// Finds weights that are not finite, after a loss was not.
#pragma once
#include <string>

#include "model/model.h"

namespace trl::train {

// Names the first such number of the model and its adapters, "model.norm.weight[7] is nan"; empty: there is
// none. Reads all weights.
std::string faulty_weight(model::Model& model);

}  // namespace trl::train
