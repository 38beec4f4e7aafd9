// What the sequences of a generator give, and what each would give alone.
#pragma once
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "generate/generator.h"

namespace trl::test {

struct Completion {
  std::vector<int32_t> ids;
  std::vector<float> drawn, whole;  // log-probabilities
  engine::Finish how = engine::Finish::none;
  std::string error;
  std::vector<std::vector<engine::Ranked>> best, whole_best;
  std::vector<engine::PromptToken> prompt;  // of the sequence that tells it
  const char* finish() const { return how == engine::Finish::length ? "length" : "stop"; }
  bool operator==(const Completion&) const = default;
};

class Completions final : public engine::GenerationSink {
 public:
  bool on_token(int64_t sequence, const engine::Token& token) noexcept override {
    Completion& one = all[sequence];
    EXPECT_EQ(one.how, engine::Finish::none) << "a token after the end of " << sequence;
    one.ids.push_back(token.id);
    one.drawn.push_back(token.log_probability);
    one.whole.push_back(token.whole_log_probability);
    one.best.push_back(token.best);
    one.whole_best.push_back(token.whole_best);
    return true;
  }
  void on_end(int64_t sequence, engine::Finish how, std::string_view error) noexcept override {
    Completion& one = all[sequence];
    EXPECT_EQ(one.how, engine::Finish::none) << sequence << " ends twice";
    one.how = how;
    one.error = error;
  }
  void on_begin(int64_t sequence, int64_t count) noexcept override {
    EXPECT_FALSE(known.contains(sequence)) << sequence << " begins twice";
    known[sequence] = count;
  }
  void on_prompt(int64_t sequence, const engine::PromptToken& token) noexcept override {
    Completion& one = all[sequence];
    EXPECT_EQ(token.position, std::ssize(one.prompt) + 1) << sequence;
    EXPECT_TRUE(one.ids.empty()) << "a token before the end of the prompt of " << sequence;
    one.prompt.push_back(token);
  }
  std::map<int64_t, Completion> all;
  std::map<int64_t, int64_t> known;  // ids of prompts
};

inline void run(generate::Generator& generator, Completions& completions) {
  while (generator.step(completions)) {
  }
  EXPECT_TRUE(generator.idle());
}

inline std::shared_ptr<generate::Cache> cache_of(const model::Model& model, const generate::CacheKind& kind,
                                                 int64_t blocks) {
  return std::make_shared<generate::Cache>(model, kind, blocks * generate::block_bytes(model, kind));
}

// The completions of a request, each of which is generated with nothing beside it.
inline std::vector<Completion> alone(const model::Model& model, const generate::CacheKind& kind,
                                     generate::Request request) {
  std::vector<Completion> all;
  const int64_t count = std::exchange(request.count, 1);
  for (int64_t i = 0; i < count; ++i, ++request.stream) {
    generate::Generator generator(model, generate::Limits{}, cache_of(model, kind, 16));
    Completions one;
    generator.add(request);
    run(generator, one);
    all.push_back(one.all[0]);
  }
  return all;
}
inline std::vector<Completion> alone(const model::Model& model, at::ScalarType compute,
                                     generate::Request request) {
  return alone(model, generate::CacheKind{compute}, std::move(request));
}

}  // namespace trl::test
