// Token ids for prompts, and lengths like those of a service.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace trl::bench {

class Prompts {
 public:
  // The ids of a text, or with an empty name numbers drawn with a fixed seed.
  Prompts(const std::string& model, const std::string& text_file);
  std::vector<int32_t> next(int64_t length);  // those that follow, from the start again after the last one

 private:
  std::vector<int32_t> ids_;
  size_t at_ = 0;
};

struct Workload {
  std::vector<std::vector<int32_t>> prompts;
  std::vector<int64_t> new_tokens;  // of each prompt
};

// The same lengths for all.
Workload equal_texts(Prompts& prompts, int64_t count, int64_t length, int64_t new_tokens);
// Lognormal lengths: prompts of 16 to 512 tokens, median 96, and answers of 8 to 256, median 48; fixed seed.
Workload mixed_texts(Prompts& prompts, int64_t count);
// Prompts that differ only in their last token.
Workload same_texts(Prompts& prompts, int64_t count, int64_t length, int64_t new_tokens);

}  // namespace trl::bench
