// A prepared row, and its encoding as bytes.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trl::data {

inline constexpr int32_t kIgnored = -100;  // label of a token that is not trained

struct Example {
  std::vector<int32_t> input_ids;
  std::vector<int32_t> labels;       // ids or kIgnored; as many
  std::vector<int32_t> seq_lengths;  // of its documents, which do not attend to each other; at least one
  std::vector<int64_t> source_rows;  // numbers, from 0, of the rows whose tokens it holds
};

// Ids take 4 bytes, labels a few bytes a run. decode_example throws Error(format) if the bytes are not an
// example.
std::string encode(const Example& example);
Example decode_example(std::string_view bytes);
int64_t example_length(std::string_view bytes);  // number of input_ids

}  // namespace trl::data
