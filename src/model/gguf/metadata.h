// Writes a configuration as the metadata of a GGUF file, with the keys that llama.cpp reads, and reads it
// back.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "base/json/json.h"
#include "base/log.h"
#include "io/gguf.h"
#include "model/config/model_config.h"

namespace trl::model {

// name: general.name. log: may be nullptr; gets a warning if llama.cpp's results differ beyond some length,
// at which context_length then ends. Throws Error(unsupported) for a configuration that it cannot compute.
io::GgufPairs gguf_metadata(const ModelConfig& config, const std::string& name, base::LogSink* log);

// The divisors of a head's frequencies, one number for each: rope_freqs.weight of Llama 3.1's scaling,
// rope_factors_long.weight and rope_factors_short.weight of longrope.
std::vector<std::pair<std::string, std::vector<float>>> rope_tensors(const ModelConfig& config);

// config.json and generation_config.json made from a file's metadata, as transformers would write them.
base::Json gguf_config_json(const io::Gguf& file);
base::Json gguf_generation_config_json(const io::Gguf& file);

// Converts the rotary embedding of a GGUF file to the form of config.json.
base::Json gguf_rope(const io::Gguf& file, const std::string& architecture, int64_t head_dim);

// The ratio of the configuration's factor of cosines and sines to llama.cpp's.
double gguf_rope_multiplier(const RopeConfig& rope);

}  // namespace trl::model
