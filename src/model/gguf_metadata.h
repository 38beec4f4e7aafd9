// A configuration as the metadata of a GGUF file, in the words that llama.cpp reads (gguf_config.h reads it
// back).
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "io/write_gguf.h"
#include "model/model_config.h"

namespace trl::model {

// name: general.name. log, which may be nullptr, is warned where llama.cpp would compute something else
// past some length, which context_length then ends at. Throws Error(unsupported) for what it cannot
// compute.
io::GgufPairs gguf_metadata(const ModelConfig& config, const std::string& name, base::LogSink* log);

// What frequencies are divided by, one number for each of those of a head: rope_freqs.weight of Llama 3.1's
// scaling, rope_factors_long.weight and rope_factors_short.weight of longrope.
std::vector<std::pair<std::string, std::vector<float>>> rope_tensors(const ModelConfig& config);

}  // namespace trl::model
