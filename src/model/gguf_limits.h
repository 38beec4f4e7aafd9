// Whether llama.cpp computes what a configuration says.
#pragma once
#include "model/gguf_families.h"
#include "model/model_config.h"

namespace trl::model {

// Throws Error(unsupported) with what it would compute instead.
void check_gguf(const ModelConfig& config, const GgufFamily& row);

// The scale of q k^T if no file says it.
double gguf_attention_scale(const GgufFamily& row, int64_t layers, int64_t hidden, int64_t heads,
                            int64_t head_dim);

// What q k^T is multiplied by, as a multiple of what llama.cpp multiplies it by; 1 where they are equal.
double gguf_attention_ratio(const ModelConfig& config, const GgufFamily& row);

}  // namespace trl::model
