// Preference pairs for preference_bench.
#pragma once
#include <cstdint>
#include <string>

namespace trl::bench {

// {"prompt", "chosen", "rejected"} rows (method kto: {"prompt", "completion", "label"}) of solutions that
// were marked right and wrong (examples/c/dpo). Without such marks in `from`: prompts and completions of
// about this many tokens each, of what its rows say.
struct PairShape {
  int64_t prompt = 0, completion = 0;  // tokens; 0: the pairs as they are
};
void write_pairs(const std::string& from, const std::string& to, const std::string& method, PairShape shape);

}  // namespace trl::bench
