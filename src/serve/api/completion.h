// A completion of the library, read from its JSON, and the tokens and probabilities of answers.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/json/json.h"

namespace trl::serve {

struct TokenLogprob {
  int32_t id = 0;
  double value = 0;                              // NaN: unknown
  std::vector<std::pair<int32_t, double>> best;  // by rank
};

// An id in a place of a prompt.
struct RankedId {
  int32_t id = 0;
  double value = 0;  // its log-probability; NaN: unknown
  int64_t rank = 0;  // 1: the most likely
};

struct Completion {
  std::string text;
  std::vector<int32_t> ids;
  std::string finish;  // "stop", "length", "abort"; empty: it goes on
  base::Json
      stop_reason;    // the text or the id that ended it, or the error; null: an end token, or another reason
  std::string error;  // why it was aborted
  base::Json weights;  // of a trainer's model: the versions of the adapter that it comes from; else null
  std::vector<TokenLogprob> logprobs;
  int64_t cached_tokens = 0;  // of the prompt, that the model had computed before
  // By places of the prompt: its own id first, then the most likely others; the first place is empty. Empty:
  // not asked for.
  std::vector<std::vector<RankedId>> prompt;
};

// whole: log-probabilities of the whole distribution, not of the one that tokens are drawn from.
Completion read_completion(const std::string& json, bool whole);

// Returns the tokens of one place by rank, with the chosen one among them.
std::vector<std::pair<int32_t, double>> ranked(const TokenLogprob& token);
inline constexpr double kLeastLogprob = -9999.0;  // vLLM writes it for all that is less
base::Json number_or_null(double value);          // NaN and infinities are null

std::string random_id(std::string_view prefix);  // prefix and 32 hexadecimal digits

}  // namespace trl::serve
