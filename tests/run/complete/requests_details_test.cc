// What completions say besides their tokens: what stopped them, what is new of them, and of their prompt.
#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "base/error.h"
#include "run/complete/requests.h"
#include "run/complete/small_process.h"
#include "support/letter_tokenizer.h"

namespace trl::run {
namespace {

// Writes the same bytes for each sequence, one a step; the first step is that of the prompts.
class Script final : public engine::Generator {
 public:
  void release() noexcept override {}
  int32_t add(const engine::GenerationRequest& request, int64_t* first,
              engine::ErrorSink&) noexcept override {
    *first = 3;
    count_ = request.count;
    prompt_.assign(request.ids.begin(), request.ids.end());
    best_ = request.sampling->prompt_best;
    return static_cast<int32_t>(Status::ok);
  }
  int32_t step(engine::GenerationSink& sink, engine::ErrorSink&) noexcept override {
    if (!begun_) {
      begun_ = true;
      sink.on_begin(3, 5);
      for (size_t i = 1; best_ >= 0 && i < prompt_.size(); ++i)
        sink.on_prompt(3, {.position = static_cast<int64_t>(i), .id = prompt_[i], .log_probability = -2});
      return static_cast<int32_t>(Status::ok);
    }
    for (int64_t number = 3; number < 3 + count_; ++number) {
      if (over_.contains(number)) continue;
      engine::Token token;
      token.id = text[next_];
      token.last = next_ + 1 == text.size();
      const bool goes_on = sink.on_token(number, token);
      if (goes_on && !token.last) continue;
      sink.on_end(number, goes_on ? how : engine::Finish::refused, "");
      over_.insert(number);
    }
    ++next_;
    return static_cast<int32_t>(Status::ok);
  }
  int32_t extend(int64_t, std::span<const int32_t>, int64_t, engine::ErrorSink&) noexcept override {
    return static_cast<int32_t>(Status::ok);
  }
  void end(int64_t) noexcept override {}
  bool idle() noexcept override { return false; }
  int32_t release_memory(engine::ErrorSink&) noexcept override { return static_cast<int32_t>(Status::ok); }
  engine::GenerationUse use() noexcept override { return {}; }

  std::string text = "abcdef";
  engine::Finish how = engine::Finish::length;

 private:
  std::vector<int32_t> prompt_;
  int64_t count_ = 0, best_ = -1;
  size_t next_ = 0;
  std::set<int64_t> over_;
  bool begun_ = false;
};

class RequestDetails : public testing::Test {
 protected:
  void run(int steps) {
    for (int i = 0; i < steps; ++i) requests_.step(nullptr);
  }
  Completion only() {
    requests_.add(ids_, options_);
    run(1 + static_cast<int>(engine_.text.size()));
    return requests_.take(3, 1)[0];
  }

  test::SmallProcess process_;
  const Tokenizer tokenizer_{std::make_unique<test::LetterTokenizer>()};
  Script engine_;
  const std::vector<int32_t> ids_ = {1, 2, 3};
  RequestOptions options_;
  Requests requests_{process_, EngineObject<engine::Generator>(&engine_), tokenizer_, {'y'}};
};

TEST_F(RequestDetails, ATextOfStopIsNamed) {
  options_.stops = {"zz", "cd", "d"};
  const Completion one = only();
  EXPECT_EQ(one.text, "ab");
  EXPECT_EQ(one.stop, "cd");
  EXPECT_FALSE(one.stop_id.has_value());
}

TEST_F(RequestDetails, AnIdOfTheRequestIsNamed) {
  engine_.how = engine::Finish::stop_id;
  options_.sampling.stop_ids = {'f', 'y'};
  EXPECT_EQ(only().stop_id, 'f');
}

TEST_F(RequestDetails, AnEndTokenIsNot) {
  engine_.text = "aby";
  engine_.how = engine::Finish::stop_id;
  options_.sampling.stop_ids = {'f', 'y'};
  const Completion one = only();
  EXPECT_EQ(one.end, End::stop);
  EXPECT_FALSE(one.stop_id.has_value());
}

TEST_F(RequestDetails, AnEndTokenThatTheRequestNamesAloneIs) {
  engine_.text = "aby";
  engine_.how = engine::Finish::stop_id;
  options_.own_ends = false;
  options_.sampling.stop_ids = {'y'};
  EXPECT_EQ(only().stop_id, 'y');
}

TEST_F(RequestDetails, PromptsBelongToAllOfARequest) {
  options_.count = 2;
  options_.tells_usage = true;
  options_.sampling.prompt_best = 0;
  requests_.add(ids_, options_);
  EXPECT_EQ(requests_.take(3, 1)[0].prompt, nullptr);  // not computed yet
  run(7);
  for (const Completion& one : requests_.take(3, 2)) {
    EXPECT_EQ(one.cached, 5);
    ASSERT_NE(one.prompt, nullptr);
    ASSERT_EQ(one.prompt->size(), 2u);
    EXPECT_EQ((*one.prompt)[1].id, 3);
    EXPECT_EQ((*one.prompt)[1].log_probability, -2);
  }
}

TEST_F(RequestDetails, WithoutBeingAskedNothingIsToldOfPrompts) {
  const Completion one = only();
  EXPECT_FALSE(one.cached.has_value());
  EXPECT_EQ(one.prompt, nullptr);
}

TEST_F(RequestDetails, WhatIsNewIsTakenOnce) {
  options_.takes_new = true;
  options_.stops = {"de!"};
  options_.sampling.log_probabilities = true;
  requests_.add(ids_, options_);
  run(3);
  const auto taken = [&] { return requests_.take(3, 1)[0]; };
  const Completion first = taken();
  EXPECT_EQ(first.text, "ab");
  EXPECT_EQ(first.ids, (std::vector<int32_t>{'a', 'b'}));
  EXPECT_EQ(first.tokens.size(), 2u);
  run(2);
  const Completion second = taken();
  EXPECT_EQ(second.text, "c");  // "d" may begin the stop text
  EXPECT_EQ(second.ids, (std::vector<int32_t>{'c', 'd'}));
  EXPECT_TRUE(taken().ids.empty());
  run(2);
  const Completion last = taken();
  EXPECT_EQ(last.text, "def");
  EXPECT_EQ(last.ids, (std::vector<int32_t>{'e', 'f'}));
  EXPECT_EQ(last.tokens.size(), 2u);
  EXPECT_EQ(last.end, End::length);
  EXPECT_THROW(taken(), Error);
}

}  // namespace
}  // namespace trl::run
