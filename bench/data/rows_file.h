// Files of rows of `question` and `answer` to measure with.
#pragma once
#include <cstdint>
#include <string>

namespace trl::bench {

// The lines of a JSONL file again and again, until there are so many.
void repeat_rows(const std::string& from, int64_t rows, const std::string& to);
// Made up, of 500 bytes and more each, until the file has so many bytes.
void make_rows(int64_t bytes, const std::string& to);

}  // namespace trl::bench
