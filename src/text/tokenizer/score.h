// Scores of a Unigram vocabulary, read as `tokenizers` reads them.
#pragma once
#include <string_view>

namespace trl::text {

// Reads a number of JSON as serde_json does for `tokenizers`, which rounds twice: the digits that fit into 64
// bits become a double, which is then multiplied by or divided by a power of ten. For some numbers of 17 and
// more digits the last bit differs from the nearest double's, and it may decide between two ways to cut a
// word. Infinite for a number too large.
double read_score(std::string_view number);

}  // namespace trl::text
