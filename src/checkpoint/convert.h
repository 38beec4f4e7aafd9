// Converts a model's files: to a GGUF file or a directory, and into another type. If no adapter is merged, it
// works in bounded memory, without opening the model.
#pragma once
#include <string>
#include <string_view>

#include "base/log.h"
#include "engine/model.h"
#include "io/model_source.h"

namespace trl::checkpoint {

// Chooses by the name of spec.target: a file if it ends in .gguf, else a directory. The type "auto" is that
// of the model's files, and float32 for block types. Throws Error(format) for a tied head that differs from
// the embedding, which no result could hold.
void convert(const engine::ConvertSpec& spec, base::LogSink* log);

// Writes a LoRA adapter as a GGUF file that llama.cpp applies to a GGUF file of its base (llama-cli --lora).
// path: an adapter's directory; base: its model, from which the configuration is read, and the embedding and
// head that the adapter's files duplicate. type: "f32", "f16", "bf16"; "auto": as stored. Throws
// Error(unsupported) for parts that llama.cpp cannot represent: DoRA, biases, modules that are saved whole,
// trained tokens, an embedding or head that is not the model's.
void convert_adapter_to_gguf(const std::string& path, const io::ModelSource& base, const std::string& target,
                             std::string_view type, base::LogSink* log);

}  // namespace trl::checkpoint
