// last_completions.jsonl in output_dir, for the report of a run: the completions of its last generation and
// the weighted sums of their rewards.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/json/json.h"

namespace trl::telemetry {

struct ScoredCompletion {
  int64_t step = 0;
  base::Json prompt, completion;  // each a text, or a list of messages
  double reward = 0;              // `sum` of its line; NaN: it has none
};

std::string scored_path(const std::string& output_dir);
std::string scored_line(const ScoredCompletion& completion);
// Reads the file; without it: empty. Lines that are something else are left out.
std::vector<ScoredCompletion> read_scored(const std::string& path);

// Calls take with each line of a file that is a JSON object. Without the file: never.
void each_object(const std::string& path, const std::function<void(const base::Json&)>& take);

}  // namespace trl::telemetry
