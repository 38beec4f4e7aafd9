// Converts the rotary embedding of a GGUF file to the form of config.json.
#pragma once
#include <string>

#include "base/json/json.h"
#include "io/gguf.h"
#include "model/rope_config.h"

namespace trl::model {

base::Json gguf_rope(const io::Gguf& file, const std::string& architecture, int64_t head_dim);

// The ratio of the configuration's factor of cosines and sines to llama.cpp's.
double gguf_rope_multiplier(const RopeConfig& rope);

}  // namespace trl::model
