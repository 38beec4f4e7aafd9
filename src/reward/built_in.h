// TRL's reward functions, by their names.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "reward/batch.h"

namespace trl::reward {

// Gives 1 if the text begins with <think>, has no other <think>, and has a </think> after it; else 0.
std::unique_ptr<Reward> think_format_reward();

// Gives 1 if the answer equals the column `solution` (math/read.h, math/equal.h), 0 if it does not or if
// there is none, NaN if the solution is null or has no answer.
std::unique_ptr<Reward> accuracy_reward();

// Gives the same for the text after the last delimiter, and 0 without one. The delimiters are tried in order
// until one occurs.
std::unique_ptr<Reward> reasoning_accuracy_reward(std::vector<std::string> reasoning_delimiters);

// Gives, for n tokens, L = max_completion_len and C = soft_punish_cache: 0 up to L - C, (L - C - n) / C up to
// L, -1 beyond. DAPO, https://arxiv.org/abs/2503.14476, equation 13.
std::unique_ptr<Reward> soft_overlong_punishment(int64_t max_completion_len, int64_t soft_punish_cache);

// Gives (1 - different / all) * max_penalty over the n-grams of the tokens; 0 for fewer tokens than
// ngram_size. https://arxiv.org/abs/2502.03373, appendix C.2.
std::unique_ptr<Reward> repetition_penalty_reward(int64_t ngram_size, double max_penalty);

struct CosineScale {
  int64_t max_len = 0;
  double min_value_wrong = -1, max_value_wrong = -0.5, min_value_correct = 0.5, max_value_correct = 1;
};
// Gives, for n tokens and p = min(n / max_len, 1): low + (high - low) (1 + cos(pi p)) / 2. A correct answer
// (accuracy_reward is 1) has low = min_value_correct and high = max_value_correct, a wrong one low =
// max_value_wrong and high = min_value_wrong. NaN if accuracy_reward is. https://arxiv.org/abs/2502.03373,
// appendix C.1.
std::unique_ptr<Reward> cosine_scaled_reward(const CosineScale& scale);

}  // namespace trl::reward
