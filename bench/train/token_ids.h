// Text as token ids, through the C ABI.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace trl::bench {

// The first `count` of what the tokenizer of a model makes of a file.
std::vector<int32_t> token_ids(const std::string& model, const std::string& text_file, int64_t count);

}  // namespace trl::bench
