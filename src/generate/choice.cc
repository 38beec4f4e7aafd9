#include "generate/choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "generate/logits.h"
#include "generate/truncation.h"
#include "kernels/head/logit_row.h"

namespace trl::generate {

namespace {

using engine::Ranked;
using kernels::LogitRow;
using kernels::LogitSoftmax;

// Returns the `count` largest logits with their log-probabilities, best first; of equal ones the lower id.
template <class LogProbability>
std::vector<Ranked> best_of(std::vector<Candidate> tokens, int64_t count, const LogProbability& value) {
  const auto end = tokens.begin() + std::min(count, std::ssize(tokens));
  std::partial_sort(tokens.begin(), end, tokens.end(), [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  });
  std::vector<Ranked> best;
  for (auto token = tokens.begin(); token != end; ++token) best.push_back({token->id, value(*token)});
  return best;
}

std::vector<Ranked> best_of(const LogitRow& row, const LogitSoftmax& softmax, int64_t count) {
  if (count == 0) return {};
  std::vector<Candidate> tokens;
  for (const int32_t id : row.ids_from(row.limit_of(count)))
    if (row.logit(id) != kRemoved) tokens.push_back({id, row.logit(id), 0});
  return best_of(std::move(tokens), count, [&](const Candidate& t) { return softmax.log_probability(t.id); });
}

double weight_of(std::span<const Candidate> tokens) {
  double sum = 0;
  for (const Candidate& token : tokens) sum += token.weight;
  return sum;
}

const Candidate& drawn(std::span<const Candidate> tokens, double sum, double draw) {
  double below = 0;
  for (const Candidate& token : tokens) {
    below += token.weight;
    if (below > draw * sum) return token;
  }
  return tokens.back();  // rounding may make the total too small
}

// Chooses from the tokens that truncation left.
void choose_left(std::vector<Candidate> tokens, const engine::Sampling& s, double draw,
                 engine::Token& token) {
  const double sum = weight_of(tokens);
  const Candidate chosen = drawn(tokens, sum, draw);
  token.id = chosen.id;
  if (!s.log_probabilities) return;
  const double top = std::ranges::max_element(tokens, {}, &Candidate::logit)->logit;
  const auto log_probability = [top, log_sum = std::log(sum)](const Candidate& one) {
    return static_cast<float>(one.logit - top - log_sum);
  };
  token.log_probability = log_probability(chosen);
  if (s.best > 0) token.best = best_of(std::move(tokens), s.best, log_probability);
}

// Says why a constraint and the other options leave no token.
std::string_view why_none(const engine::AllowedIds& allowed) {
  if (!allowed.empty())
    return "the other options of the request remove all tokens that its regex, choice or json_schema allows "
           "here";
  if (allowed.end)
    return "the text is a whole match of its regex, choice or json_schema, and another option of the request "
           "forbids the ids that end it (min_new_tokens, allowed_token_ids, suppress_tokens, bad_words)";
  return "no token of the vocabulary goes on as its regex, choice or json_schema wants";
}

}  // namespace

std::string_view choose_token(std::span<const float> logits, std::span<const int32_t> ids, size_t prompt,
                              const engine::Sampling& s, double draw, engine::Token& token,
                              const engine::AllowedIds* allowed) {
  const LogitRow given(logits);
  if (!std::isfinite(given.top())) return "the model's output is not a number";
  std::vector<float> changed;
  if (changes_logits(s)) {
    changed.assign(logits.begin(), logits.end());
    process_logits(changed, ids, prompt, s);
  }
  std::optional<kernels::LogitBits> bits;
  if (allowed != nullptr) bits = allowed_bits(logits.size(), *allowed, s);
  std::optional<LogitRow> processed;
  if (bits || !changed.empty())
    processed.emplace(changed.empty() ? logits : changed, bits ? &*bits : nullptr);
  const LogitRow& row = processed ? *processed : given;
  if (!(row.top() < INFINITY)) return "logit_bias or a penalty makes a logit infinite";
  if (row.top() == kRemoved && allowed != nullptr) return why_none(*allowed);
  if (row.top() == kRemoved) return "the options of the request leave no token that could be chosen";
  const bool greedy = s.temperature == 0;
  const double temperature = greedy ? 1 : s.temperature;
  std::optional<LogitSoftmax> softmax;
  if (!greedy || s.log_probabilities) softmax.emplace(row, temperature);
  const bool truncated = !greedy && truncates(s);
  if (truncated)
    choose_left(truncate(row, *softmax, s), s, draw, token);
  else
    token.id = greedy ? row.first_top() : softmax->id_at(draw);
  if (!s.log_probabilities) return {};
  if (!truncated) {
    token.log_probability = softmax->log_probability(token.id);
    token.best = best_of(row, *softmax, s.best);
  }
  if (processed) softmax.emplace(given, temperature);
  token.whole_log_probability = softmax->log_probability(token.id);
  token.entropy = static_cast<float>(softmax->entropy());
  token.whole_best = best_of(given, *softmax, s.best);
  return {};
}

void score_id(std::span<const float> logits, int64_t best, double temperature, engine::PromptToken& token) {
  const LogitRow row(logits);
  if (!std::isfinite(row.top())) {
    token.log_probability = std::numeric_limits<float>::quiet_NaN();
    return;
  }
  const LogitSoftmax softmax(row, temperature);
  token.log_probability = softmax.log_probability(token.id);
  token.best = best_of(row, softmax, best);
  const auto place = std::ranges::find(token.best, token.id, &Ranked::id);
  const float own = row.logit(token.id);
  token.rank = place != token.best.end()
                   ? place - token.best.begin() + 1
                   : std::ranges::count_if(logits, [own](float logit) { return logit >= own; });
}

}  // namespace trl::generate
