// Reads all weights of a model: to identify its function by them, or to find one that is not finite.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "model/model.h"
#include "tensor/parameter/parameter.h"

namespace trl::train {

// Digests names and numbers as text, the key of a model's results on disk; the storage type of the numbers
// does not matter.
std::string weights_digest(const std::vector<tensor::Parameter*>& parameters);
// Digests a config.json without its names of files and tokens.
std::string config_digest(base::Json config);

// Follows the name of such a weight.
inline constexpr std::string_view kGiveFinite = ": give a model whose weights are finite";

// Names the first such number of the model and its adapters, "model.norm.weight[7] is nan"; empty: all are
// finite. Reads all weights.
std::string faulty_weight(model::Model& model);

}  // namespace trl::train
