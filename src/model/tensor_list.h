// Lists the tensors of a model without opening one.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/model_config.h"

namespace trl::model {

struct TensorShape {
  std::string name;  // Hugging Face's
  std::vector<int64_t> shape;
};
// Sorted by layer; a tied head is not included.
std::vector<TensorShape> tensor_list(const ModelConfig& config);
// The shape of the norm of queries or keys with this many heads, if it is one tensor.
std::vector<int64_t> head_norm_shape(const ModelConfig& config, int64_t heads);

}  // namespace trl::model
