// A prepared row, and the bytes as which it is kept.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trl::data {

inline constexpr int32_t kIgnored = -100;  // a label that is not trained

struct Example {
  std::vector<int32_t> input_ids;
  std::vector<int32_t> labels;       // ids or kIgnored; as many
  std::vector<int32_t> seq_lengths;  // of the documents in it, which do not see each other; at least one
  std::vector<int64_t> source_rows;  // whose tokens it holds, from 0
};

// Ids take 4 bytes, labels a few bytes a run. decode_example throws Error(format) if the bytes are not an
// example.
std::string encode(const Example& example);
Example decode_example(std::string_view bytes);
int64_t example_length(std::string_view bytes);  // of its input_ids

}  // namespace trl::data
