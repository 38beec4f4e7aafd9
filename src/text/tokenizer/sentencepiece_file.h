// Checks a tokenizer.model before SentencePiece's library sees it: given a damaged file, the library reads
// beyond the ends of its tables or ends the process.
#pragma once
#include <string>
#include <string_view>

namespace trl::text {

// Returns the parts of a serialized ModelProto that the library needs, without its self tests. Fields as in
// sentencepiece_model.proto. Throws Error(format) that names path and the fault.
std::string read_sentencepiece_file(std::string_view bytes, const std::string& path);

}  // namespace trl::text
