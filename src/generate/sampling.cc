#include "generate/sampling.h"

#include <cmath>
#include <string_view>

#include "base/error.h"

namespace trl::generate {

namespace {

void need(std::string_view key, double value, bool holds, std::string_view expected) {
  if (!holds || !std::isfinite(value)) fail_key(key, "{} is {}; expected {}", key, value, expected);
}

void check_probabilities(const engine::Sampling& s) {
  need("temperature", s.temperature, s.temperature >= 0, "0 (greedy) or more");
  need("top_p", s.top_p, s.top_p > 0 && s.top_p <= 1, "more than 0 and at most 1");
  need("min_p", s.min_p, s.min_p >= 0 && s.min_p <= 1, "0 to 1");
  need("typical_p", s.typical_p, s.typical_p > 0 && s.typical_p <= 1, "more than 0 and at most 1");
  need("epsilon_cutoff", s.epsilon_cutoff, s.epsilon_cutoff >= 0 && s.epsilon_cutoff < 1,
       "0 (off) to less than 1");
  need("eta_cutoff", s.eta_cutoff, s.eta_cutoff >= 0 && s.eta_cutoff < 1, "0 (off) to less than 1");
  need("prompt_logprobs_temperature", s.prompt_temperature, s.prompt_temperature > 0, "more than 0");
  need("repetition_penalty", s.repetition_penalty, s.repetition_penalty > 0, "more than 0");
  need("frequency_penalty", s.frequency_penalty, true, "a number");
  need("presence_penalty", s.presence_penalty, true, "a number");
}

void check_counts(const engine::Sampling& s) {
  const auto from = [](std::string_view key, int64_t value, int64_t least, std::string_view expected) {
    if (value < least) fail_key(key, "{} is {}; expected {}", key, value, expected);
  };
  from("max_new_tokens", s.max_new_tokens, 1, "at least 1");
  from("min_new_tokens", s.min_new_tokens, 0, "0 or more");
  from("top_k", s.top_k, 0, "0 (off) or more");
  from("no_repeat_ngram_size", s.no_repeat_ngram_size, 0, "0 (off) or more");
  from("logprobs", s.best, 0, "0 or more");
  from("prompt_logprobs", s.prompt_best, -1, "0 or more");
  if (s.min_new_tokens > s.max_new_tokens)
    fail_key("min_new_tokens", "min_new_tokens is {}; expected at most max_new_tokens, which is {}",
             s.min_new_tokens, s.max_new_tokens);
}

void check_speculation(const engine::Speculation& s) {
  const auto within = [](std::string_view name, int64_t value, int64_t least, int64_t most) {
    if (value < least || value > most)
      fail_key("speculative_config", "speculative_config: {} is {}; expected {} to {}", name, value, least,
               most);
  };
  if (s.tokens == 0) return;
  within("num_speculative_tokens", s.tokens, 1, engine::Speculation::kMostTokens);
  within("prompt_lookup_max", s.most_ngram, 1, engine::Speculation::kMostNgram);
  within("prompt_lookup_min", s.least_ngram, 1, s.most_ngram);
}

void check_ids(const engine::Sampling& s, int64_t vocabulary) {
  const auto check = [&](std::string_view key, int32_t id) {
    if (id < 0 || id >= vocabulary)
      fail_key(key, "{}: id {} is not in the vocabulary of {} ids, 0 to {}", key, id, vocabulary,
               vocabulary - 1);
  };
  for (const int32_t id : s.allowed_ids) check("allowed_token_ids", id);
  for (const int32_t id : s.suppress_tokens) check("suppress_tokens", id);
  for (const int32_t id : s.stop_ids) check("stop_token_ids", id);
  for (const int32_t id : s.eos_ids) check("eos_token_id", id);
  for (const auto& word : s.bad_words_ids) {
    if (word.empty())
      fail_key("bad_words_ids", "bad_words_ids: a sequence is empty; expected at least one id");
    for (const int32_t id : word) check("bad_words_ids", id);
  }
  for (const auto& [id, bias] : s.logit_bias) {
    check("logit_bias", id);
    if (!std::isfinite(bias))
      fail_key("logit_bias", "logit_bias of id {} is {}; expected a number", id, bias);
  }
}

}  // namespace

void check_sampling(const engine::Sampling& sampling, int64_t vocabulary) {
  check_counts(sampling);
  check_speculation(sampling.speculation);
  check_probabilities(sampling);
  check_ids(sampling, vocabulary);
}

}  // namespace trl::generate
