// Writes a configuration as the metadata of a GGUF file, with the keys that llama.cpp reads (gguf_config.h
// reads it back).
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "io/write_gguf.h"
#include "model/model_config.h"

namespace trl::model {

// name: general.name. log: may be nullptr; gets a warning if llama.cpp's results differ beyond some length,
// at which context_length then ends. Throws Error(unsupported) for a configuration that it cannot compute.
io::GgufPairs gguf_metadata(const ModelConfig& config, const std::string& name, base::LogSink* log);

// The divisors of a head's frequencies, one number for each: rope_freqs.weight of Llama 3.1's scaling,
// rope_factors_long.weight and rope_factors_short.weight of longrope.
std::vector<std::pair<std::string, std::vector<float>>> rope_tensors(const ModelConfig& config);

}  // namespace trl::model
