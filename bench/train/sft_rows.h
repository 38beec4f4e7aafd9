// Rows without padding, out of those of a data set.
#pragma once
#include <cstdint>
#include <string>

namespace trl::bench {

// {"text": ...} rows, each surely longer than `tokens`: what the rows of `from` say, one after the other.
void write_long_rows(const std::string& from, const std::string& to, int64_t tokens);

}  // namespace trl::bench
