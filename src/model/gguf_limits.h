// Checks whether llama.cpp computes the same as a configuration says.
#pragma once
#include "model/gguf_families.h"
#include "model/model_config.h"

namespace trl::model {

// Throws Error(unsupported) with the different computation of llama.cpp.
void check_gguf(const ModelConfig& config, const GgufFamily& row);

// The scale of q k^T if no file gives it.
double gguf_attention_scale(const GgufFamily& row, int64_t layers, int64_t hidden, int64_t heads,
                            int64_t head_dim);

// The ratio of the configuration's factor of q k^T to llama.cpp's; 1 if they are equal.
double gguf_attention_ratio(const ModelConfig& config, const GgufFamily& row);

}  // namespace trl::model
