// Constraints that requests share: how long they are known, and how making one ends.
#include "run/complete/constraints.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "data/tokenizer/open_tokenizer.h"
#include "run/tokenizer.h"
#include "support/interrupts.h"
#include "support/recorded.h"

namespace trl::run {
namespace {

config::Config with_pattern(const std::string& pattern) {
  config::Config options;
  options.set("generate.regex", pattern);
  return options;
}

TEST(Constraints, AreKnownAsLongAsAnybodyHoldsThem) {
  TRL_NEED_GOLDEN("models/qwen2/tokenizer.json");
  const Tokenizer tokenizer(data::open_tokenizer(test::golden_path("models/qwen2")));
  Constraints& all = tokenizer.constraints();
  const config::Config mine = with_pattern("[a-c]+");
  EXPECT_EQ(all.known(config::Config()), nullptr);
  EXPECT_EQ(all.prepared(config::Config()), nullptr);
  EXPECT_EQ(all.known(mine), nullptr);
  std::shared_ptr<engine::Constraint> made = all.prepared(mine);
  ASSERT_NE(made, nullptr);
  const auto make_others = [&] {
    for (int i = 0; i < 20; ++i) all.of(with_pattern("a{" + std::to_string(i + 1) + "}"));
  };
  make_others();
  EXPECT_EQ(all.known(mine), made);
  EXPECT_EQ(all.of(mine), made);
  made.reset();
  make_others();
  EXPECT_EQ(all.known(mine), nullptr);
  EXPECT_NE(all.known(with_pattern("a{20}")), nullptr);  // one of the last
}

TEST(Constraints, AnInterruptEndsTheMakingOfOne) {
  TRL_NEED_GOLDEN("models/qwen2/tokenizer.json");
  const Tokenizer tokenizer(data::open_tokenizer(test::golden_path("models/qwen2")));
  const config::Config large = with_pattern("([a-z]{100}[0-9]{100}){100}");
  {
    test::Stops stops;
    const base::InterruptScope scope(&stops);
    try {
      tokenizer.constraints().prepared(large);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::cancelled);
    }
  }
  EXPECT_EQ(tokenizer.constraints().known(large), nullptr);
  EXPECT_NE(tokenizer.constraints().prepared(large), nullptr);
}

}  // namespace
}  // namespace trl::run
