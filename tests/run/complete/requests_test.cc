// Requests whose engine or memory fails at the wrong moment.
#include "run/complete/requests.h"

#include <gtest/gtest.h>

#include <new>

#include "run/complete/small_process.h"
#include "support/letter_tokenizer.h"
#include "support/no_memory.h"

namespace trl::run {
namespace {

// Numbers each request from 7 on. A step gives each of `numbers` its only token.
class OneToken final : public engine::Generator {
 public:
  void release() noexcept override {}
  int32_t add(const engine::GenerationRequest& request, int64_t* first,
              engine::ErrorSink&) noexcept override {
    *first = 7;
    added += request.count;
    test::NoMemory::refused = no_memory_then;
    return static_cast<int32_t>(Status::ok);
  }
  int32_t step(engine::GenerationSink& sink, engine::ErrorSink&) noexcept override {
    engine::Token token = {};
    token.id = 'a';
    token.last = true;
    for (const int64_t number : numbers) {
      refused += !sink.on_token(number, token);
      sink.on_end(number, engine::Finish::length, "");
    }
    return static_cast<int32_t>(Status::ok);
  }
  int32_t extend(int64_t, std::span<const int32_t>, int64_t, engine::ErrorSink&) noexcept override {
    return static_cast<int32_t>(Status::ok);
  }
  void end(int64_t) noexcept override {}
  bool idle() noexcept override { return numbers.empty(); }
  int32_t release_memory(engine::ErrorSink&) noexcept override { return static_cast<int32_t>(Status::ok); }
  engine::GenerationUse use() noexcept override { return {}; }

  std::vector<int64_t> numbers;
  bool no_memory_then = false;  // after the engine has a request
  int64_t added = 0, refused = 0;
};

class RequestsOfAnEngine : public testing::Test {
 protected:
  RequestsOfAnEngine() { options_.count = 3; }
  int64_t add() { return requests_.add(ids_, options_); }

  test::SmallProcess process_;
  const Tokenizer tokenizer_{std::make_unique<test::LetterTokenizer>()};
  OneToken engine_;
  const std::vector<int32_t> ids_ = {1};
  RequestOptions options_;
  Requests requests_{process_, EngineObject<engine::Generator>(&engine_), tokenizer_, {}};
};

TEST_F(RequestsOfAnEngine, HaveAllTheirMemoryBeforeTheEngineKnowsThem) {
  engine_.no_memory_then = true;
  int64_t first = -1;
  try {
    first = add();
  } catch (const std::bad_alloc&) {  // checked below
  }
  test::NoMemory::refused = false;
  ASSERT_EQ(first, 7);
  engine_.numbers = {7, 8, 9};
  EXPECT_TRUE(requests_.step(nullptr));
  EXPECT_EQ(engine_.refused, 0);
  for (const Completion& one : requests_.take(7, 3)) {
    EXPECT_EQ(one.text, "a");
    EXPECT_EQ(one.end, End::length);
  }
}

TEST_F(RequestsOfAnEngine, WithoutMemoryForThemAreNotAdded) {
  const auto is_refused = [&] {
    const test::NoMemory none;
    try {
      add();
    } catch (const std::bad_alloc&) {
      return true;
    }
    return false;
  };
  EXPECT_TRUE(is_refused());
  EXPECT_EQ(engine_.added, 0);
}

TEST_F(RequestsOfAnEngine, EndSequencesThatAreNobodys) {
  engine_.numbers = {99};
  EXPECT_TRUE(requests_.step(nullptr));
  EXPECT_EQ(engine_.refused, 1);
}

}  // namespace
}  // namespace trl::run
