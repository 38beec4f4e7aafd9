// Writes a LoRA adapter as a GGUF file that llama.cpp applies to a GGUF file of its base (llama-cli --lora).
#pragma once
#include <string>

#include "base/log.h"

namespace trl::checkpoint {

// path: an adapter's directory; base: its model, a directory or a GGUF file, from which the configuration is
// read, and the embedding and head that the adapter's files duplicate. type: "f32", "f16", "bf16"; "auto": as
// stored. Throws Error(unsupported) for parts that llama.cpp cannot represent: DoRA, biases, modules that are
// saved whole, trained tokens, an embedding or head that is not the model's.
void convert_adapter_to_gguf(const std::string& path, const std::string& base, const std::string& target,
                             std::string_view type, base::LogSink* log);

}  // namespace trl::checkpoint
