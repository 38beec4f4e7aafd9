// Logits processing against recorded cases of transformers, the draw, and the generator behind it.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "base/error.h"
#include "generate/choice.h"
#include "generate/logits.h"
#include "generate/sampling.h"
#include "generate/truncation.h"
#include "support/golden.h"

namespace trl::generate {
namespace {

using base::Json;

std::vector<float> floats_of(const Json& list) {
  std::vector<float> values;
  for (const Json& item : list) {
    values.push_back(item.is_string() ? -std::numeric_limits<float>::infinity() : item.get<float>());
  }
  return values;
}

bool has_ties(const Json& logits) {
  const std::vector<float> values = floats_of(logits);
  return std::set<float>(values.begin(), values.end()).size() < values.size();
}

engine::Sampling sampling_of(const Json& config) {
  engine::Sampling s;
  s.temperature = config.value("temperature", 1.0);
  s.top_k = config.value("top_k", int64_t{0});
  s.top_p = config.value("top_p", 1.0);
  s.min_p = config.value("min_p", 0.0);
  s.repetition_penalty = config.value("repetition_penalty", 1.0);
  s.typical_p = config.value("typical_p", 1.0);
  s.epsilon_cutoff = config.value("epsilon_cutoff", 0.0);
  s.eta_cutoff = config.value("eta_cutoff", 0.0);
  s.no_repeat_ngram_size = config.value("no_repeat_ngram_size", int64_t{0});
  s.frequency_penalty = config.value("frequency_penalty", 0.0);
  s.presence_penalty = config.value("presence_penalty", 0.0);
  s.min_new_tokens = config.value("min_tokens", int64_t{0});
  s.bad_words_ids = config.value("bad_words_ids", std::vector<std::vector<int32_t>>());
  s.allowed_ids = config.value("allowed_token_ids", std::vector<int32_t>());
  const Json bias = config.value("logit_bias", Json::object());
  for (const auto& [id, value] : bias.items()) s.logit_bias.emplace_back(std::stoi(id), value.get<float>());
  return s;
}

// All of it, over the whole vocabulary.
void process(std::vector<float>& logits, std::span<const int32_t> ids, size_t prompt,
             const engine::Sampling& s) {
  process_logits(logits, ids, prompt, s);
  if (s.temperature == 0) return;
  engine::Sampling used = s;
  if (!truncates(s)) used.top_k = std::ssize(logits);
  const kernels::LogitRow row(logits);
  const std::vector<Candidate> left = truncate(row, kernels::LogitSoftmax(row, s.temperature), used);
  std::ranges::fill(logits, kRemoved);
  for (const Candidate& token : left) logits[static_cast<size_t>(token.id)] = token.logit;
}

engine::Token chosen(const std::vector<float>& logits, engine::Sampling s, double draw) {
  s.log_probabilities = true;
  engine::Token token;
  EXPECT_EQ(choose_token(logits, {}, 0, s, draw, token), "");
  return token;
}

// From logits as they are.
engine::Token drawn(const std::vector<float>& logits, double draw) {
  engine::Sampling s;
  s.temperature = 1;
  return chosen(logits, s, draw);
}

// typical_p removes the largest logit: log-probabilities are those among the tokens that are left, and
// what follows keeps the largest of them.
TEST(Sampling, TypicalTokensWithoutTheLargestLogit) {
  engine::Sampling s;
  s.temperature = 1;
  s.typical_p = 0.3;
  s.best = 5;
  const std::vector<float> logits = {2, 1, 0.9f, 0.8f, 0.7f, 0.6f};
  const engine::Token token = chosen(logits, s, 0.1);
  double sum = 0;
  for (const engine::Ranked& one : token.best) {
    EXPECT_NE(one.id, 0);
    sum += std::exp(static_cast<double>(one.log_probability));
  }
  EXPECT_GT(token.best.size(), 1u);
  EXPECT_NEAR(sum, 1, 1e-5);
  EXPECT_EQ(token.log_probability, token.best.at(0).log_probability);
  for (double engine::Sampling::*const cutoff :
       {&engine::Sampling::epsilon_cutoff, &engine::Sampling::eta_cutoff}) {
    engine::Sampling cut = s;
    cut.*cutoff = 0.999;
    const engine::Token largest = chosen(logits, cut, 0.99);
    EXPECT_EQ(largest.id, 1);
    EXPECT_EQ(largest.log_probability, 0);
    EXPECT_EQ(largest.best.size(), 1u);
  }
}

TEST(Sampling, ProcessedLogitsAsRecorded) {
  TRL_NEED_GOLDEN("sampling/cases.json");
  const Json cases = test::golden_json("sampling/cases.json")["cases"];
  int run = 0;
  int ties = 0;
  for (const Json& one : cases) {
    const Json& config = one["config"];
    SCOPED_TRACE(config.dump());
    std::vector<float> logits = floats_of(one["logits"]);
    const auto previous = one["previous_ids"].get<std::vector<int32_t>>();
    process(logits, previous, previous.size(), sampling_of(config));
    std::vector<float> want = floats_of(one["processed_logits"]);
    std::vector<float> probs = floats_of(one["probs"]);
    EXPECT_EQ(logits.size() - static_cast<size_t>(std::count(logits.begin(), logits.end(), kRemoved)),
              one["kept"]);
    if (has_ties(one["logits"])) {
      // Which of several equal logits top_p removes follows torch's sort, which is not stable: compare what
      // is left.
      for (std::vector<float>* values : {&logits, &want, &probs}) std::sort(values->begin(), values->end());
      ++ties;
    }
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_TRUE(test::close(logits[i], want[i], test::limits::function))
          << i << ": " << logits[i] << " " << want[i];
    }
    // The chance of each token, read off the boundaries of the draw.
    double below = 0;
    for (size_t i = 0; i < probs.size(); ++i) {
      if (probs[i] > 1e-4f) {
        const engine::Token token = drawn(logits, below + probs[i] / 2);
        EXPECT_EQ(token.id, static_cast<int32_t>(i));
        EXPECT_TRUE(test::close(token.log_probability, std::log(probs[i]), test::limits::function));
      }
      below += probs[i];
    }
    ++run;
  }
  EXPECT_EQ(run, 120);
  EXPECT_EQ(ties, 48);
}

// Penalties by themselves, which a greedy choice gets, and all of it.
TEST(Sampling, OfVllmAsWrittenOut) {
  TRL_NEED_GOLDEN("sampling/vllm.json");
  const Json cases = test::golden_json("sampling/vllm.json")["cases"];
  for (const Json& one : cases) {
    SCOPED_TRACE(one["config"].dump());
    std::vector<int32_t> ids = one["prompt_ids"];
    const size_t prompt = ids.size();
    const auto completion = one["new_ids"].get<std::vector<int32_t>>();
    ids.insert(ids.end(), completion.begin(), completion.end());
    engine::Sampling sampling = sampling_of(one["config"]);
    sampling.order = engine::SamplingOrder::vllm;
    sampling.stop_ids = one["end_ids"].get<std::vector<int32_t>>();
    for (const std::string stage : {"penalised_logits", "processed_logits"}) {
      std::vector<float> logits = floats_of(one["logits"]);
      engine::Sampling used = sampling;
      if (stage == "penalised_logits") used.temperature = 0;
      process(logits, ids, prompt, used);
      const std::vector<float> want = floats_of(one[stage]);
      for (size_t i = 0; i < want.size(); ++i)
        EXPECT_TRUE(test::close(logits[i], want[i], test::limits::function)) << stage << " " << i;
    }
  }
  EXPECT_GE(cases.size(), 60u);
}

std::vector<float> random_logits(size_t count, uint64_t seed) {
  std::vector<float> logits(count);
  for (size_t i = 0; i < count; ++i)
    logits[i] = static_cast<float>(std::round(400 * uniform(seed, 0, i)) / 20);
  return logits;
}

// By its definition: sorted whole, from the smallest up. Returns kRemoved for those that are at most `limit`
// together.
std::vector<float> sorted_top_p(const std::vector<float>& given, double limit) {
  std::vector<size_t> order(given.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return given[a] != given[b] ? given[a] < given[b] : a > b; });
  double sum = 0, below = 0;
  for (const float logit : given) sum += std::exp(static_cast<double>(logit));
  std::vector<float> left = given;
  for (size_t i = 0; i + 1 < given.size(); ++i) {
    below += std::exp(static_cast<double>(given[order[i]])) / sum;
    if (below > limit) break;
    left[order[i]] = kRemoved;
  }
  return left;
}

// Logits with many ties. A token whose sum is within float32's rounding of the limit may stay or go.
TEST(Sampling, TopPOfALargeVocabularyKeepsWhatASortWould) {
  for (const double top_p : {0.01, 0.3, 0.9, 0.99999}) {
    for (const size_t count : {1u, 63u, 65u, 3000u}) {
      const std::vector<float> given = random_logits(count, count);
      const std::vector<float> most = sorted_top_p(given, 1 - top_p - 0x1p-23);
      const std::vector<float> least = sorted_top_p(given, 1 - top_p + 0x1p-23);
      engine::Sampling s;
      s.temperature = 1;
      s.top_p = top_p;
      std::vector<float> logits = given;
      process(logits, {}, 0, s);
      for (size_t i = 0; i < count; ++i)
        EXPECT_TRUE(logits[i] == most[i] || logits[i] == least[i])
            << count << " tokens, top_p " << top_p << ", token " << i;
    }
  }
}

TEST(Sampling, GreedyFindsTheFirstMaximumWhereverItIs) {
  for (const size_t count : {1u, 31u, 128u, 129u, 300u}) {
    for (size_t at = 0; at < count; ++at) {
      std::vector<float> logits(count, -2.0f);
      logits[at] = -1;
      logits.back() = -1;
      EXPECT_EQ(chosen(logits, {}, 0.5).id, static_cast<int32_t>(at));
    }
  }
}

TEST(Sampling, GreedyTakesTheFirstMaximumAndIgnoresWarpers) {
  engine::Sampling s;
  s.top_k = 1;
  std::vector<float> logits = {1, 3, 3, 0};
  const engine::Token token = chosen(logits, s, 0.9);
  EXPECT_EQ(token.id, 1);
  const double whole = 3 - std::log(std::exp(1.0) + 2 * std::exp(3.0) + 1);
  EXPECT_NEAR(token.log_probability, whole, 1e-6);
  EXPECT_NEAR(token.whole_log_probability, whole, 1e-6);
  s.repetition_penalty = 2;
  process_logits(logits, std::vector<int32_t>{1, 1, -5, 99}, 4, s);
  EXPECT_EQ(logits, (std::vector<float>{1, 1.5f, 3, 0}));
}

TEST(Sampling, ATemperatureNextToNothingIsGreedy) {
  const float removed = -std::numeric_limits<float>::infinity();
  for (const double temperature : {1e-30, 1e-39, 1e-300}) {
    engine::Sampling s;
    s.temperature = temperature;
    std::vector<float> logits = {1e10f, 3e10f, -3e10f};
    EXPECT_EQ(chosen(logits, s, 0.5).id, 1);
    EXPECT_EQ(chosen(logits, s, 0.5).log_probability, 0);
    process(logits, {}, 0, s);
    EXPECT_EQ(logits, (std::vector<float>{removed, 0, removed})) << temperature;
  }
}

TEST(Sampling, DrawsFollowTheDistribution) {
  const std::vector<float> logits = {0, std::log(2.0f), -std::numeric_limits<float>::infinity(),
                                     std::log(5.0f)};
  std::map<int32_t, int> counts;
  constexpr int kDraws = 80'000;
  for (int i = 0; i < kDraws; ++i) ++counts[drawn(logits, uniform(42, 3, static_cast<uint64_t>(i))).id];
  EXPECT_EQ(counts.count(2), 0u);
  const double share[] = {1 / 8.0, 2 / 8.0, 0, 5 / 8.0};
  for (const int32_t id : {0, 1, 3}) {
    const double sigma = std::sqrt(kDraws * share[id] * (1 - share[id]));
    EXPECT_NEAR(counts[id], kDraws * share[id], 4 * sigma) << id;
  }
  EXPECT_EQ(drawn(logits, 0.0).id, 0);
  EXPECT_EQ(drawn(logits, 1.0).id, 3);
}

// Known answers of the authors' library (Random123, kat_vectors).
TEST(Philox, KnownAnswers) {
  using Four = std::array<uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Four{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Four{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Four{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformDependsOnAllThreeAndStaysBelowOne) {
  const double u = uniform(1, 2, 3);
  EXPECT_EQ(u, uniform(1, 2, 3));
  EXPECT_NE(u, uniform(uint64_t{1} << 32 | 1, 2, 3));
  EXPECT_NE(u, uniform(1, uint64_t{1} << 32 | 2, 3));
  EXPECT_NE(u, uniform(1, 2, uint64_t{1} << 32 | 3));
  double sum = 0;
  for (uint64_t i = 0; i < 10'000; ++i) {
    const double v = uniform(7, 0, i);
    ASSERT_GE(v, 0.0);
    ASSERT_LT(v, 1.0);
    sum += v;
  }
  EXPECT_NEAR(sum / 10'000, 0.5, 4 * std::sqrt(1.0 / 12 / 10'000));
}

TEST(Sampling, RefusesWhatIsOutOfRange) {
  const auto key_of = [](const auto& change) {
    engine::Sampling s;
    change(s);
    try {
      check_sampling(s, 100);
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::invalid_config);
      EXPECT_TRUE(error.message().starts_with(error.key())) << error.message();
      return error.key();
    }
    return std::string();
  };
  using S = engine::Sampling;
  EXPECT_EQ(key_of([](S&) {}), "");
  EXPECT_EQ(key_of([](S& s) { s.max_new_tokens = 0; }), "max_new_tokens");
  EXPECT_EQ(key_of([](S& s) { s.min_new_tokens = -1; }), "min_new_tokens");
  EXPECT_EQ(key_of([](S& s) { s.min_new_tokens = s.max_new_tokens + 1; }), "min_new_tokens");
  EXPECT_EQ(key_of([](S& s) { s.temperature = -0.1; }), "temperature");
  EXPECT_EQ(key_of([](S& s) { s.temperature = NAN; }), "temperature");
  EXPECT_EQ(key_of([](S& s) { s.top_k = -1; }), "top_k");
  EXPECT_EQ(key_of([](S& s) { s.top_p = 0; }), "top_p");
  EXPECT_EQ(key_of([](S& s) { s.top_p = 1.01; }), "top_p");
  EXPECT_EQ(key_of([](S& s) { s.min_p = NAN; }), "min_p");
  EXPECT_EQ(key_of([](S& s) { s.typical_p = 0; }), "typical_p");
  EXPECT_EQ(key_of([](S& s) { s.epsilon_cutoff = 1; }), "epsilon_cutoff");
  EXPECT_EQ(key_of([](S& s) { s.eta_cutoff = NAN; }), "eta_cutoff");
  EXPECT_EQ(key_of([](S& s) { s.repetition_penalty = 0; }), "repetition_penalty");
  EXPECT_EQ(key_of([](S& s) { s.frequency_penalty = NAN; }), "frequency_penalty");
  EXPECT_EQ(key_of([](S& s) { s.presence_penalty = INFINITY; }), "presence_penalty");
  EXPECT_EQ(key_of([](S& s) { s.no_repeat_ngram_size = -1; }), "no_repeat_ngram_size");
  EXPECT_EQ(key_of([](S& s) { s.best = -1; }), "logprobs");
  EXPECT_EQ(key_of([](S& s) { s.allowed_ids = {99, 100}; }), "allowed_token_ids");
  EXPECT_EQ(key_of([](S& s) { s.suppress_tokens = {-1}; }), "suppress_tokens");
  EXPECT_EQ(key_of([](S& s) { s.stop_ids = {100}; }), "stop_token_ids");
  EXPECT_EQ(key_of([](S& s) { s.eos_ids = {3, -1}; }), "eos_token_id");
  EXPECT_EQ(key_of([](S& s) { s.own_end_ids = {100}; }), "");  // of a tokenizer with more ids
  EXPECT_EQ(key_of([](S& s) { s.bad_words_ids = {{1}, {}}; }), "bad_words_ids");
  EXPECT_EQ(key_of([](S& s) { s.bad_words_ids = {{1, 100}}; }), "bad_words_ids");
  EXPECT_EQ(key_of([](S& s) { s.logit_bias = {{100, 1.0f}}; }), "logit_bias");
  EXPECT_EQ(key_of([](S& s) { s.logit_bias = {{1, NAN}}; }), "logit_bias");
}

// transformers' NoBadWordsLogitsProcessor drops a word that is an end token; vLLM's bad words keep it.
TEST(Sampling, AnEndTokenAloneIsNoBadWord) {
  engine::Sampling s;
  s.bad_words_ids = {{1}, {2}, {3}, {7, 2}};
  s.eos_ids = {1};
  s.own_end_ids = {2};
  const auto removed = [&s](int32_t last) {
    std::vector<float> logits(5, 0.0f);
    process_logits(logits, std::vector<int32_t>{last}, 1, s);
    std::vector<size_t> ids;
    for (size_t id = 0; id < logits.size(); ++id)
      if (logits[id] == kRemoved) ids.push_back(id);
    return ids;
  };
  EXPECT_EQ(removed(4), (std::vector<size_t>{3}));
  EXPECT_EQ(removed(7), (std::vector<size_t>{2, 3}));  // the end of a longer word
  s.order = engine::SamplingOrder::vllm;
  EXPECT_EQ(removed(4), (std::vector<size_t>{1, 2, 3}));
}

std::string_view problem_of(const std::vector<float>& logits, const engine::Sampling& s) {
  engine::Token token;
  return choose_token(logits, {}, 0, s, 0.5, token);
}

TEST(Sampling, LogitsThatAreNoNumbersOrAllRemovedGiveNoToken) {
  const float nan = std::nanf(""), infinite = std::numeric_limits<float>::infinity();
  for (const double temperature : {0.0, 1.0}) {
    engine::Sampling s;
    s.temperature = temperature;
    for (const float wrong : {nan, -nan, infinite}) {
      for (const size_t at : {0u, 130u, 299u}) {
        std::vector<float> logits(300, 1.0f);
        EXPECT_EQ(problem_of(logits, s), "");
        logits[at] = wrong;
        EXPECT_NE(problem_of(logits, s).find("not a number"), std::string_view::npos) << at;
      }
    }
    s.allowed_ids = {1};
    EXPECT_EQ(problem_of({1, 2, 3}, s), "");
    s.suppress_tokens = {1};
    EXPECT_NE(problem_of({1, 2, 3}, s).find("no token"), std::string_view::npos);
    s = {};
    s.temperature = temperature;
    s.logit_bias = {{1, 3e38f}};
    EXPECT_NE(problem_of({1, 3e38f, 3}, s).find("infinite"), std::string_view::npos);
  }
}

// Both distributions at once: id 3 is the most likely, and penalised.
TEST(Sampling, TheBestTokensOfBothDistributions) {
  const std::vector<float> logits = {1, 0, 2, 4, 2};
  engine::Sampling s;
  s.temperature = 2;
  s.logit_bias = {{3, -1.5f}};
  s.top_k = 3;
  s.best = 4;
  const engine::Token token = chosen(logits, s, 0.0);
  const auto ids = [](const std::vector<engine::Ranked>& list) {
    std::vector<int32_t> all;
    for (const engine::Ranked& one : list) all.push_back(one.id);
    return all;
  };
  EXPECT_EQ(token.id, 2);
  EXPECT_EQ(ids(token.best), (std::vector<int32_t>{3, 2, 4}));
  EXPECT_EQ(ids(token.whole_best), (std::vector<int32_t>{3, 2, 4, 0}));
  const double left = std::log(std::exp(1.25) + 2 * std::exp(1.0));
  const double whole = std::log(std::exp(0.5) + 1 + 2 * std::exp(1.0) + std::exp(2.0));
  EXPECT_NEAR(token.log_probability, 1 - left, 1e-6);
  EXPECT_NEAR(token.best[0].log_probability, 1.25 - left, 1e-6);
  EXPECT_NEAR(token.whole_log_probability, 1 - whole, 1e-6);
  EXPECT_NEAR(token.whole_best[0].log_probability, 2 - whole, 1e-6);
  EXPECT_EQ(token.best[1].log_probability, token.log_probability);
  s.best = 0;
  EXPECT_TRUE(chosen(logits, s, 0.0).best.empty());
  EXPECT_TRUE(chosen(logits, s, 0.0).whole_best.empty());
}

// A vocabulary of many pieces: each step against its definition over all tokens.
TEST(Sampling, StepsOfALargeVocabularyKeepWhatTheirDefinitionsSay) {
  const std::vector<float> given = random_logits(5000, 3);
  double sum = 0, weighted = 0;
  for (const float logit : given) sum += std::exp(static_cast<double>(logit));
  for (const float logit : given) weighted += std::exp(static_cast<double>(logit)) * logit;
  const double entropy = std::log(sum) - weighted / sum;
  const double top = *std::ranges::max_element(given);
  const auto expect_kept = [&](const engine::Sampling& s, const auto& kept) {
    std::vector<float> want = given, logits = given;
    for (float& logit : want)
      if (!kept(logit, std::exp(logit - std::log(sum)))) logit = kRemoved;
    process(logits, {}, 0, s);
    EXPECT_EQ(logits, want);
  };
  engine::Sampling plain;
  plain.temperature = 1;
  engine::Sampling s = plain;
  std::vector<float> sorted = given;
  std::ranges::sort(sorted, std::greater<>());
  for (const int64_t k : {1, 3, 40, 41, 2000, 5000, 9000}) {
    s.top_k = k;
    expect_kept(
        s, [&](double logit, double) { return k > 5000 || logit >= sorted[static_cast<size_t>(k - 1)]; });
  }
  s = plain;
  for (const double limit : {1.0, 0.5, 0.013, 1e-7}) {
    s.min_p = limit;
    expect_kept(s, [&](double logit, double) { return std::exp(logit - top) >= limit; });
  }
  s = plain;
  for (const double limit : {0.999, 3e-4, 1e-9}) {
    s.epsilon_cutoff = limit;
    expect_kept(s, [&](double logit, double p) { return p >= limit || logit == top; });
    s.epsilon_cutoff = 0;
    s.eta_cutoff = limit;
    const double eta = std::min(limit, std::sqrt(limit) * std::exp(-entropy));
    expect_kept(s, [&](double logit, double p) { return p >= eta || logit == top; });
    s.eta_cutoff = 0;
  }
  s = plain;
  std::ranges::sort(sorted, {}, [&](float logit) { return std::abs(std::log(sum) - logit - entropy); });
  for (const double share : {0.1, 0.6, 0.999}) {
    double kept = 0;
    size_t last = 0;
    while ((kept += std::exp(sorted[last]) / sum) < share) ++last;
    const double farthest = std::abs(std::log(sum) - sorted[last] - entropy);
    s.typical_p = share;
    expect_kept(
        s, [&](double logit, double) { return std::abs(std::log(sum) - logit - entropy) < farthest + 1e-6; });
  }
}

// The draw from all tokens, which adds piece by piece, and the one from a list of all of them.
TEST(Sampling, DrawsFromALargeVocabularyInvertItsDistribution) {
  const std::vector<float> logits = random_logits(1000, 5);
  engine::Sampling s;
  s.temperature = 1.5;
  std::vector<double> up_to;
  double sum = 0;
  for (const float logit : logits) up_to.push_back(sum += std::exp(logit / 1.5));
  engine::Sampling listed = s;
  listed.top_k = 1000;
  for (uint64_t i = 0; i < 300; ++i) {
    const double draw = uniform(1, 2, i);
    const auto want = std::ranges::find_if(up_to, [&](double until) { return until > draw * sum; });
    const engine::Token token = chosen(logits, s, draw), other = chosen(logits, listed, draw);
    EXPECT_EQ(token.id, want - up_to.begin());
    EXPECT_EQ(other.id, token.id);
    EXPECT_NEAR(other.log_probability, token.log_probability, 1e-5);
  }
}

}  // namespace
}  // namespace trl::generate
