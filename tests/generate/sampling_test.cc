// Logits processing against recorded cases of transformers, the draw, and the generator behind it.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "base/error.h"
#include "generate/logits.h"
#include "generate/sampling.h"
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
    process_logits(logits, previous, previous.size(), sampling_of(config));
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
        const int32_t id = choose_sampled(logits, below + probs[i] / 2);
        EXPECT_EQ(id, static_cast<int32_t>(i));
        EXPECT_TRUE(test::close(kernels::log_probability(logits, id), std::log(probs[i]), test::limits::function));
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
      process_logits(logits, ids, prompt, used);
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

// By its definition: sorted whole, from the smallest up. Logits with many ties.
TEST(Sampling, TopPOfALargeVocabularyKeepsWhatASortWould) {
  for (const double top_p : {0.01, 0.3, 0.9, 0.99999}) {
    for (const size_t count : {1u, 63u, 65u, 3000u}) {
      const std::vector<float> given = random_logits(count, count);
      std::vector<size_t> order(count);
      std::iota(order.begin(), order.end(), size_t{0});
      std::sort(order.begin(), order.end(),
                [&](size_t a, size_t b) { return given[a] != given[b] ? given[a] < given[b] : a > b; });
      double sum = 0, below = 0;
      for (const float logit : given) sum += std::exp(static_cast<double>(logit));
      std::vector<float> want = given;
      for (size_t i = 0; i + 1 < count; ++i) {
        below += std::exp(static_cast<double>(given[order[i]])) / sum;
        if (below > 1 - top_p) break;
        want[order[i]] = kRemoved;
      }
      engine::Sampling s;
      s.temperature = 1;
      s.top_p = top_p;
      std::vector<float> logits = given;
      process_logits(logits, {}, 0, s);
      EXPECT_EQ(logits, want) << count << " tokens, top_p " << top_p;
    }
  }
}

TEST(Sampling, GreedyFindsTheFirstMaximumWhereverItIs) {
  for (const size_t count : {1u, 31u, 32u, 33u, 200u}) {
    for (size_t at = 0; at < count; ++at) {
      std::vector<float> logits(count, -2.0f);
      logits[at] = -1;
      logits.back() = -1;
      EXPECT_EQ(choose_greedy(logits), static_cast<int32_t>(at));
    }
  }
  EXPECT_EQ(choose_greedy(std::vector<float>(40, kRemoved)), 0);
}

TEST(Sampling, GreedyTakesTheFirstMaximumAndIgnoresWarpers) {
  engine::Sampling s;
  s.top_k = 1;
  std::vector<float> logits = {1, 3, 3, 0};
  process_logits(logits, {}, 0, s);
  EXPECT_EQ(logits, (std::vector<float>{1, 3, 3, 0}));
  EXPECT_EQ(choose_greedy(logits), 1);
  EXPECT_NEAR(kernels::log_probability(logits, 1), 3 - std::log(std::exp(1.0) + 2 * std::exp(3.0) + 1), 1e-6);
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
    process_logits(logits, {}, 0, s);
    EXPECT_EQ(logits, (std::vector<float>{removed, 0, removed})) << temperature;
    EXPECT_EQ(choose_sampled(logits, 0.5), 1);
  }
}

TEST(Sampling, DrawsFollowTheDistribution) {
  const std::vector<float> logits = {0, std::log(2.0f), -std::numeric_limits<float>::infinity(),
                                     std::log(5.0f)};
  std::map<int32_t, int> counts;
  constexpr int kDraws = 80'000;
  for (int i = 0; i < kDraws; ++i) ++counts[choose_sampled(logits, uniform(42, 3, static_cast<uint64_t>(i)))];
  EXPECT_EQ(counts.count(2), 0u);
  const double share[] = {1 / 8.0, 2 / 8.0, 0, 5 / 8.0};
  for (const int32_t id : {0, 1, 3}) {
    const double sigma = std::sqrt(kDraws * share[id] * (1 - share[id]));
    EXPECT_NEAR(counts[id], kDraws * share[id], 4 * sigma) << id;
  }
  EXPECT_EQ(choose_sampled(logits, 0.0), 0);
  EXPECT_EQ(choose_sampled(logits, 1.0), 3);
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
      check_sampling(s);
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::invalid_config);
      return error.key();
    }
    return std::string();
  };
  EXPECT_EQ(key_of([](engine::Sampling&) {}), "");
  EXPECT_EQ(key_of([](engine::Sampling& s) { s.max_new_tokens = 0; }), "max_new_tokens");
  EXPECT_EQ(key_of([](engine::Sampling& s) { s.temperature = -0.1; }), "temperature");
  EXPECT_EQ(key_of([](engine::Sampling& s) { s.temperature = NAN; }), "temperature");
  EXPECT_EQ(key_of([](engine::Sampling& s) { s.top_k = -1; }), "top_k");
  EXPECT_EQ(key_of([](engine::Sampling& s) { s.top_p = 0; }), "top_p");
  EXPECT_EQ(key_of([](engine::Sampling& s) { s.top_p = 1.01; }), "top_p");
  EXPECT_EQ(key_of([](engine::Sampling& s) { s.min_p = NAN; }), "min_p");
  EXPECT_EQ(key_of([](engine::Sampling& s) { s.repetition_penalty = 0; }), "repetition_penalty");
}

}  // namespace
}  // namespace trl::generate
