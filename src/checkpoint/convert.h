// Converts a model's files: to a GGUF file or a directory, and into another type. If no adapter is merged, it
// works in bounded memory, without opening the model.
#pragma once
#include <span>
#include <string>

#include "base/log.h"
#include "engine/engine.h"

namespace trl::checkpoint {

// Chooses by the name of spec.target: a file if it ends in .gguf, else a directory. The type "auto" is that
// of the model's files, and float32 for block types. Throws Error(format) for a tied head that differs from
// the embedding, which no result could hold.
void convert(const engine::ConvertSpec& spec, base::LogSink* log);

// type: as in gguf_type().
void convert_to_gguf(const std::string& path, const std::string& target, std::string_view type,
                     const engine::GgufVocabulary& vocabulary, base::LogSink* log);
// type: "f32", "f16", "bf16", "auto". files: the tokenizer's.
void convert_to_directory(const std::string& path, const std::string& target, std::string_view type,
                          std::span<const engine::NamedBytes> files, base::LogSink* log);

}  // namespace trl::checkpoint
