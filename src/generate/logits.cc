#include "generate/logits.h"

#include <algorithm>
#include <vector>

namespace trl::generate {

namespace {

using Ids = std::span<const int32_t>;

void remove(std::span<float> logits, int32_t id) {
  if (id >= 0 && static_cast<size_t>(id) < logits.size()) logits[static_cast<size_t>(id)] = kRemoved;
}

void keep_only(std::span<float> logits, const std::vector<int32_t>& allowed) {
  std::vector<float> kept(logits.size(), kRemoved);
  for (const int32_t id : allowed)
    if (id >= 0 && static_cast<size_t>(id) < kept.size())
      kept[static_cast<size_t>(id)] = logits[static_cast<size_t>(id)];
  std::ranges::copy(kept, logits.begin());
}

bool is_end(int32_t id, const engine::Sampling& s) {
  const auto has = [id](const std::vector<int32_t>& ends) {
    return std::ranges::find(ends, id) != ends.end();
  };
  return has(s.eos_ids) || has(s.own_end_ids);
}

// Removes the last id of a word if the others end the text. As in transformers, an end token alone is not a
// bad word: a completion could not end.
void remove_bad_words(std::span<float> logits, Ids ids, const engine::Sampling& s) {
  const bool ends_may = s.order == engine::SamplingOrder::transformers;
  for (const std::vector<int32_t>& word : s.bad_words_ids) {
    if (word.empty() || word.size() - 1 > ids.size()) continue;
    if (ends_may && word.size() == 1 && is_end(word[0], s)) continue;
    const Ids begun(word.data(), word.size() - 1);
    if (std::ranges::equal(begun, ids.last(begun.size()))) remove(logits, word.back());
  }
}

// Removes ids that would end an n-gram that is already there.
void remove_repeated(std::span<float> logits, Ids ids, int64_t n) {
  const auto size = static_cast<size_t>(n);
  if (ids.size() + 1 < size) return;
  const Ids begun = ids.last(size - 1);
  for (size_t i = 0; i + size <= ids.size(); ++i)
    if (std::ranges::equal(begun, ids.subspan(i, size - 1))) remove(logits, ids[i + size - 1]);
}

void penalise_counts(std::span<float> logits, Ids completion, float frequency, float presence) {
  std::vector<int32_t> sorted(completion.begin(), completion.end());
  std::ranges::sort(sorted);
  for (auto run = sorted.begin(); run != sorted.end();) {
    const auto end = std::find_if(run, sorted.end(), [&](int32_t id) { return id != *run; });
    if (*run >= 0 && static_cast<size_t>(*run) < logits.size()) {
      float& logit = logits[static_cast<size_t>(*run)];
      logit -= frequency * static_cast<float>(end - run);
      logit -= presence;
    }
    run = end;
  }
}

void apply_repetition_penalty(std::span<float> logits, std::span<const int32_t> previous, float penalty) {
  std::vector<bool> seen(logits.size());
  for (const int32_t id : previous) {
    if (id < 0 || static_cast<size_t>(id) >= logits.size() || seen[static_cast<size_t>(id)]) continue;
    seen[static_cast<size_t>(id)] = true;
    float& logit = logits[static_cast<size_t>(id)];
    logit = logit < 0 ? logit * penalty : logit / penalty;
  }
}

}  // namespace

kernels::LogitBits allowed_bits(size_t logits, const engine::AllowedIds& allowed, const engine::Sampling& s) {
  kernels::LogitBits bits(logits);
  const auto add = [&](int32_t id) { bits.add(id); };
  std::ranges::for_each(allowed.few, add);
  bits.add_words(allowed.words);
  if (allowed.end)
    for (const auto* const ends : {&s.stop_ids, &s.eos_ids, &s.own_end_ids})
      std::ranges::for_each(*ends, add);
  return bits;
}

bool changes_logits(const engine::Sampling& s) {
  return !s.allowed_ids.empty() || !s.bad_words_ids.empty() || !s.suppress_tokens.empty() ||
         s.min_new_tokens > 0 || !s.logit_bias.empty() || s.repetition_penalty != 1.0 ||
         s.no_repeat_ngram_size > 0 || s.frequency_penalty != 0 || s.presence_penalty != 0;
}

void process_logits(std::span<float> logits, Ids ids, size_t prompt, const engine::Sampling& s) {
  const Ids completion = ids.subspan(prompt);
  if (!s.allowed_ids.empty()) keep_only(logits, s.allowed_ids);
  remove_bad_words(logits, ids, s);
  for (const int32_t id : s.suppress_tokens) remove(logits, id);
  if (std::ssize(completion) < s.min_new_tokens)
    for (const auto* const ends : {&s.stop_ids, &s.eos_ids, &s.own_end_ids})
      for (const int32_t id : *ends) remove(logits, id);
  for (const auto& [id, bias] : s.logit_bias)
    if (id >= 0 && static_cast<size_t>(id) < logits.size()) logits[static_cast<size_t>(id)] += bias;
  if (s.repetition_penalty != 1.0)
    apply_repetition_penalty(logits, ids, static_cast<float>(s.repetition_penalty));
  if (s.no_repeat_ngram_size > 0) remove_repeated(logits, ids, s.no_repeat_ngram_size);
  if (s.frequency_penalty != 0 || s.presence_penalty != 0)
    penalise_counts(logits, completion, static_cast<float>(s.frequency_penalty),
                    static_cast<float>(s.presence_penalty));
}

}  // namespace trl::generate
