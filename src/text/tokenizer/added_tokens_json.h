// Writes the added tokens into the text of a tokenizer.json, whose vocabulary is not read again.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "text/tokenizer/tokenizer.h"

namespace trl::text {

// json: a good tokenizer.json, whose "added_tokens" become these, by id.
std::string with_added_tokens(std::string_view json, const std::map<int32_t, AddedToken>& tokens);

}  // namespace trl::text
