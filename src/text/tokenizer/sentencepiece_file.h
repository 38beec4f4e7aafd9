// What a tokenizer.model may hold before SentencePiece's library sees it: the library reads beyond the ends
// of its tables, or ends the process, where a file is damaged.
#pragma once
#include <string>
#include <string_view>

namespace trl::text {

// The parts of a serialized ModelProto that the library needs, without its self tests. Fields as in
// sentencepiece_model.proto. Throws Error(format) that names path and what is wrong.
std::string read_sentencepiece_file(std::string_view bytes, const std::string& path);

}  // namespace trl::text
