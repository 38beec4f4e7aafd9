// Conversions of a model's files, as `trl convert` asks for them.
#pragma once
#include <string>

#include "checkpoint/convert.h"

namespace trl::checkpoint {

inline void convert_to_gguf(const io::ModelSource& from, const std::string& target, std::string_view type,
                            const engine::GgufVocabulary& vocabulary, base::LogSink* log) {
  engine::ConvertSpec spec;
  spec.model.source = from;
  spec.target = target;
  spec.type = type;
  spec.vocabulary = vocabulary;
  convert(spec, log);
}

inline void convert_to_directory(const io::ModelSource& from, const std::string& target,
                                 std::string_view type, std::span<const engine::NamedBytes> files,
                                 base::LogSink* log) {
  engine::ConvertSpec spec;
  spec.model.source = from;
  spec.target = target;
  spec.type = type;
  spec.files = files;
  convert(spec, log);
}

}  // namespace trl::checkpoint
