// Scores of a Unigram vocabulary, read as `tokenizers` reads them.
#pragma once
#include <string_view>

namespace trl::text {

// A number of JSON. serde_json, which `tokenizers` reads it with, rounds twice: the digits that fit into 64
// bits become a double, which is then multiplied by or divided by a power of ten. Of some numbers of 17 and
// more digits the last bit is another one than that of the nearest double, and it may decide between two ways
// to cut a word. Infinite for a number too large.
double read_score(std::string_view number);

}  // namespace trl::text
