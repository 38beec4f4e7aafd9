// The tensors that a model consists of, without opening one.
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
// In the order of the layers; a tied head is not among them.
std::vector<TensorShape> tensor_list(const ModelConfig& config);
// Of the norm of queries or keys, of so many heads, where it is one tensor.
std::vector<int64_t> head_norm_shape(const ModelConfig& config, int64_t heads);

}  // namespace trl::model
