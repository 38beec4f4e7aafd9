// A causal language model made of decoder layers. forward() returns hidden states, never logits.
#pragma once
#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "kernels/kernels.h"
#include "model/config.h"
#include "tensor/parameter.h"

namespace trl::model {

using tensor::Parameter;

struct ForwardInput {
  at::Tensor input_ids;     // int32 [tokens]
  at::Tensor position_ids;  // int32 [tokens]
  kernels::SegmentsPtr segments;
};

struct ForwardOptions {
  at::ScalarType compute = at::kFloat;  // of linear layers and attention; bfloat16 over float32 weights is autocast
  bool checkpoint = false;              // recompute each decoder layer in backward
};

// Keys and values of one sequence, all layers, for decoding. Made by Model::new_cache.
struct KvCache;

class Model {
 public:
  // path: a Hugging Face directory or a GGUF file; dtype: "auto", "float32", "bfloat16" (float16 files are converted).
  static std::unique_ptr<Model> open(const std::string& path, std::string_view dtype);
  virtual ~Model() = default;

  virtual const ModelConfig& config() const = 0;
  virtual const base::Json& config_json() const = 0;             // config.json as loaded (made from GGUF metadata)
  virtual const base::Json& generation_config_json() const = 0;  // null: there was none
  virtual std::vector<Parameter*> parameters() = 0;              // each once, in the order of a saved file
  virtual Parameter& head() = 0;                                 // lm_head, or the tied embedding

  // -> [tokens, hidden], after the final norm
  virtual at::Tensor forward(const ForwardInput& input, const ForwardOptions& options) = 0;
  // The entries of transformers' hidden_states: embeddings, after each layer, the last one after the final norm.
  virtual std::vector<at::Tensor> hidden_states(const ForwardInput& input, const ForwardOptions& options) = 0;

  // Decoding: appends ids (a whole prompt, or one token) to the cache, returns the hidden state [1, hidden] of the last.
  virtual std::shared_ptr<KvCache> new_cache(int64_t capacity) = 0;
  virtual at::Tensor extend(KvCache& cache, const std::vector<int32_t>& ids, at::ScalarType compute) = 0;
};

}  // namespace trl::model
