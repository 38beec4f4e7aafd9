// Rotary embedding of a GGUF file, as in config.json.
#pragma once
#include <string>

#include "base/json/json.h"
#include "io/gguf.h"
#include "model/rope_config.h"

namespace trl::model {

base::Json gguf_rope(const io::Gguf& file, const std::string& architecture, int64_t head_dim);

// What the cosines and sines are multiplied by, as a multiple of what llama.cpp multiplies them by.
double gguf_rope_multiplier(const RopeConfig& rope);

}  // namespace trl::model
