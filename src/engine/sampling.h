// The options of a request for completions.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/constraint/constraint.h"

namespace trl::engine {

// Generation takes and returns token ids.
inline constexpr std::string_view kNoAdapter = "none";

// The order in which tokens are removed from a distribution: transformers' (top_k, top_p, min_p, typical_p,
// epsilon_cutoff, eta_cutoff), or vLLM's, with min_p before top_k.
enum class SamplingOrder : int32_t { transformers, vllm };

// The rule that keeps the text of a completion to a form; made by libtrl.so.
using Constraint = text::Constraint;
using AllowedIds = text::AllowedIds;

// Prompt lookup: ids are proposed because they followed the same ids before, in the text or in other
// completions of its prompt, and computed together. Tokens and their draws are the same as without.
struct Speculation {
  int64_t tokens = 0;                       // at most proposed at once, up to kMostTokens; 0: off
  int64_t most_ngram = 5, least_ngram = 5;  // ids that must be the same: as many as possible of this range
  bool always = false;                      // computes all that are proposed, even where that is slower
  static constexpr int64_t kMostTokens = 32, kMostNgram = 64;
};

// The options of one request, by the names of transformers and vLLM. Everything up to the temperature changes
// logits of greedy choices, too.
struct Sampling {
  int64_t max_new_tokens = 20;
  int64_t min_new_tokens = 0;  // no stop id before
  // Applied first: removes tokens after which the text can no longer match, and end tokens until it matches.
  // null: no constraint. Each continuation of a sequence starts matching from the beginning.
  std::shared_ptr<Constraint> constraint = nullptr;
  std::vector<int32_t> allowed_ids;      // empty: all
  std::vector<int32_t> suppress_tokens;  // never chosen
  // Ids, or sequences of ids whose last one is not chosen after the others.
  std::vector<std::vector<int32_t>> bad_words_ids;
  std::vector<std::pair<int32_t, float>> logit_bias;       // added to the logits of these ids
  double repetition_penalty = 1.0;                         // for ids of the prompt and the completion
  int64_t no_repeat_ngram_size = 0;                        // no n-gram twice; 0: off
  double frequency_penalty = 0.0, presence_penalty = 0.0;  // for ids of the completion: by count, and once
  double temperature = 0.0;                                // 0: greedy
  double top_p = 1.0;
  int64_t top_k = 0;  // 0: off
  double min_p = 0.0;
  double typical_p = 1.0;
  double epsilon_cutoff = 0.0, eta_cutoff = 0.0;  // 0: off
  SamplingOrder order = SamplingOrder::transformers;
  uint64_t seed = 42;
  // Ids that end a text: stop_token_ids and eos_token_id, which must be in the vocabulary, and those of the
  // model and the tokenizer, which need not be.
  std::vector<int32_t> stop_ids, eos_ids, own_end_ids;
  std::string adapter;             // empty: the adapter in use; kNoAdapter: the model without adapters
  bool log_probabilities = false;  // costs exponentials of the whole vocabulary for each token
  int64_t best = 0;                // the number of most likely tokens that have log-probabilities too
  // The number of most likely tokens to report at each position of the prompt, with the prompt's own token,
  // by the model's own distribution at prompt_temperature (GenerationSink::on_prompt); -1: no
  // log-probabilities.
  int64_t prompt_best = -1;
  double prompt_temperature = 1.0;
  Speculation speculation;
};

}  // namespace trl::engine
