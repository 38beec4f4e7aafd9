// samples.jsonl in output_dir: completions of fixed prompts while a run trains, an object a line.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/json/json.h"

namespace trl::telemetry {

struct Sample {
  int64_t step = 0;
  double epoch = 0;
  base::Json prompt;  // a text, or a list of messages
  std::string completion;
};

std::string samples_path(const std::string& output_dir);
std::string sample_line(const Sample& sample);
// Reads the samples of a file. Lines that are not samples are left out, such as an incomplete last line.
// Without a file: empty.
std::vector<Sample> read_samples(const std::string& path);

std::string prompt_text(const base::Json& prompt);  // for people: messages, each with its role

}  // namespace trl::telemetry
