// A weight with its gradient. Gradients are not autograd's: the backward of each kernel adds into `grad`
// directly, so a gradient is written once and its buffer can be a view into one flat bucket.
#pragma once
#include <ATen/ATen.h>

#include <string>

namespace trl::tensor {

struct Parameter {
  std::string name;          // Hugging Face's, "model.layers.0.self_attn.q_proj.weight"
  at::Tensor value;          // contiguous, requires_grad false
  at::Tensor grad;           // same shape; undefined: frozen, no gradient is computed. Backward adds into it.
  bool decay = true;         // weight decay applies
  int64_t padding_row = -1;  // of an embedding: looking it up trains nothing (nn.Embedding's padding_idx)
  bool trainable() const { return grad.defined(); }
};

}  // namespace trl::tensor
