// Prompt lookup with every option of sampling: whatever changes, removes or draws a token, and whatever ends
// a completion, does so as without it.
#include <gtest/gtest.h>

#include <random>

#include "generate/completions.h"
#include "support/letter_tokenizer.h"
#include "support/seeded_model.h"
#include "text/constraint/pattern_parser.h"
#include "text/constraint/token_constraint.h"

namespace trl::generate {
namespace {

class RandomRequests {
 public:
  explicit RandomRequests(uint32_t seed) : random_(seed) {}

  Request next() {
    Request request{.ids = {}, .sampling = {}};
    for (int i = 0; i < 12; ++i) request.ids.push_back(60 + i % 5 + (some(0.2) ? 1 : 0));
    request.count = one_of({1, 1, 2, 3});
    request.stream = random_() % 1000;
    engine::Sampling& s = request.sampling;
    s.max_new_tokens = one_of({1, 7, 30});
    s.temperature = one_of({0.0, 0.7, 1.0, 2.0});
    s.log_probabilities = some(0.7);
    s.best = s.log_probabilities ? one_of({0, 2}) : 0;
    if (some(0.3)) s.top_k = 3;
    if (some(0.3)) s.top_p = 0.8;
    if (some(0.2)) s.min_p = 0.05;
    if (some(0.1)) s.typical_p = 0.9;
    if (some(0.1)) s.epsilon_cutoff = 0.001;
    if (some(0.1)) s.eta_cutoff = 0.001;
    if (some(0.3)) s.order = engine::SamplingOrder::vllm;
    if (some(0.3)) s.repetition_penalty = 1.3;
    if (some(0.2)) s.no_repeat_ngram_size = 4;
    if (some(0.2)) s.frequency_penalty = 0.3;
    if (some(0.2)) s.presence_penalty = -0.3;
    if (some(0.6)) s.allowed_ids = {60, 61, 62, 63, 64, 65, 70};
    if (some(0.2)) s.bad_words_ids = {{61, 62}, {64}};
    if (some(0.2)) s.suppress_tokens = {63};
    if (some(0.2)) s.logit_bias = {{60, 2.0f}, {62, -1.0f}};
    if (some(0.3)) s.stop_ids = {65};
    if (some(0.2)) s.min_new_tokens = std::min<int64_t>(5, s.max_new_tokens);
    if (some(0.2)) s.prompt_best = 1;
    if (some(0.4)) s.constraint = constraint_of(one_of({"[<-F]{3,20}", "(<=?>?|AB*)*@", "[A-C]+"}));
    return request;
  }

 private:
  static std::shared_ptr<engine::Constraint> constraint_of(const char* pattern) {
    static const auto trie = std::make_shared<const text::TokenTrie>(test::LetterTokenizer());
    return std::make_shared<text::TokenConstraint>(text::parse_pattern(pattern, "key"), "key", trie);
  }
  bool some(double share) { return static_cast<double>(random_() % 1000) < share * 1000; }
  template <class T>
  T one_of(std::initializer_list<T> all) {
    return all.begin()[random_() % all.size()];
  }
  std::mt19937 random_;
};

TEST(LookupOptions, NoneChangesACompletion) {
  const test::SeededModel seeded("qwen3_window");
  const auto model = model::Model::open(seeded.directory.path(), "float32");
  int64_t accepted = 0;
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    RandomRequests random(seed);
    std::vector<Request> requests;
    for (int i = 0; i < 4; ++i) requests.push_back(random.next());
    const auto completions = [&](bool looks_up) {
      // Few blocks: sequences give theirs back and are computed again.
      const CacheKind kind{.compute = at::kFloat, .int8 = seed % 3 == 0};
      Generator generator(*model, Limits{.blocks = 6, .step_tokens = 23}, test::cache_of(*model, kind, 6));
      test::Completions got;
      for (const Request& request : requests) {
        Request own = request;
        if (looks_up)
          own.sampling.speculation = {
              .tokens = 5, .most_ngram = 3, .least_ngram = 1, .always = seed % 2 == 0};
        generator.add(own);
        generator.step(got);
      }
      test::run(generator, got);
      EXPECT_EQ(generator.use().blocks, 0);
      EXPECT_GE(generator.use().accepted, 0);
      EXPECT_LE(generator.use().accepted, generator.use().proposed);
      accepted += generator.use().accepted;
      return got.all;
    };
    EXPECT_TRUE(completions(true) == completions(false)) << "seed " << seed;
  }
  EXPECT_GT(accepted, 100);
}

// An error of a token is none of the proposals that were right.
TEST(LookupOptions, AFailureIsNotCounted) {
  const test::SeededModel seeded("qwen3_window");
  const auto model = model::Model::open(seeded.directory.path(), "float32");
  Generator generator(*model, at::kFloat, Limits{.blocks = 4});
  Request request{.ids = {60, 61, 60, 61, 60}, .sampling = {}};
  request.sampling.allowed_ids = {60};
  request.sampling.no_repeat_ngram_size = 3;  // 60 60 60 is not written twice
  request.sampling.max_new_tokens = 30;
  request.sampling.speculation = {.tokens = 5, .most_ngram = 3, .least_ngram = 1, .always = true};
  generator.add(request);
  test::Completions got;
  test::run(generator, got);
  EXPECT_EQ(got.all[0].how, engine::Finish::failed);
  EXPECT_GE(generator.use().accepted, 0);
}

}  // namespace
}  // namespace trl::generate
