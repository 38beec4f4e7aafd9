// Converts a model's files from one form to the other in bounded memory, without opening the model.
#pragma once
#include <span>
#include <string>

#include "base/log.h"
#include "engine/engine.h"

namespace trl::checkpoint {

// type: as in gguf_type().
void convert_to_gguf(const std::string& path, const std::string& target, std::string_view type,
                     const engine::GgufVocabulary& vocabulary, base::LogSink* log);
// type: "f32", "f16", "bf16"; "auto": as stored, and float32 for block types. files: of the tokenizer.
void convert_to_directory(const std::string& path, const std::string& target, std::string_view type,
                          std::span<const engine::NamedBytes> files, base::LogSink* log);

}  // namespace trl::checkpoint
