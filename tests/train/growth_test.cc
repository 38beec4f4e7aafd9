// Memory that is resident: over many steps of rows of many lengths, and after a trainer while a model lives.
#include <cstdlib>
#include <fstream>
#include <random>

#include "support/resident.h"
#include "train/tiny_run.h"

namespace trl::train::growth_test {
namespace {

using test::resident;
using test::Settings;

constexpr int64_t kBatch = 4, kLongest = 700;
// oneDNN's primitives of new lengths, of which half of the steps do not make all that are kept, take some 4
// MiB.
constexpr int64_t kPrimitives = int64_t{6} << 20;

// The longest rows are the first, so that what a step takes at most is known after few.
void write_rows(const std::string& path, int64_t rows) {
  std::mt19937 random(7);
  std::uniform_int_distribution<int64_t> length(2, kLongest), token(0, 479);
  std::ofstream out(path);
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<int64_t> ids(static_cast<size_t>(row < kBatch ? kLongest : length(random)));
    for (int64_t& id : ids) id = token(random);
    out << base::Json({{"input_ids", ids}}).dump() << "\n";
  }
}

test::SftRun run_of(const test::Scratch& scratch, int64_t steps, const Settings& more) {
  const std::string count = std::to_string(steps);
  write_rows(scratch / "rows.jsonl", kBatch * steps);
  Settings settings = {{"max_steps", count.c_str()}, {"logging_strategy", "no"}};
  settings.insert(settings.end(), more.begin(), more.end());
  return {test::tiny_config(settings),
          test::golden_path("models/qwen2"),
          scratch / "rows.jsonl",
          {0, kBatch * steps - 1}};
}

void expect_no_growth(const Settings& settings) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer keeps for a while what is freed";
#endif
  const char* const text = std::getenv("TRL_TEST_GROWTH_STEPS");
  const int64_t steps = text != nullptr ? std::stoll(text) : 120;
  const test::Scratch scratch;
  test::SftRun run = run_of(scratch, steps, settings);
  Trainer& trainer = run.start();
  ASSERT_TRUE(trainer.step());
  ASSERT_TRUE(test::reset_most_resident());
  int64_t warm = 0, done = 1;
  while (trainer.step()) {
    if (++done == steps / 2) warm = resident("VmHWM");
  }
  ASSERT_EQ(done, steps);
  EXPECT_LE(resident("VmHWM"), warm + warm / 50 + kPrimitives);
}

TEST(Growth, ThereIsNoneOverRowsOfManyLengths) {
  TRL_NEED_TINY_RUN();
  expect_no_growth({});
}

TEST(Growth, ThereIsNoneWhereLayersAreComputedAgain) {
  TRL_NEED_TINY_RUN();
  expect_no_growth({{"gradient_checkpointing", "true"}, {"dtype", "bfloat16"}, {"bf16", "true"}});
}

TEST(Growth, WhatATrainerFreedGoesWhileAModelLives) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer keeps for a while what is freed";
#endif
  TRL_NEED_TINY_RUN();
  const test::Scratch scratch;
  test::SftRun other = test::tiny_run({{"max_steps", "1"}});
  ASSERT_TRUE(other.start().step());
  test::SftRun run = run_of(scratch, 2, {});
  tensor::trim();
  const int64_t before = test::memory().now(), before_resident = resident("RssAnon");
  ASSERT_TRUE(run.start().step());
  EXPECT_GT(test::memory().now(), before + (8 << 20));  // what it keeps for its next step, and its states
  run.stop();
  EXPECT_LE(test::memory().now(), before);
  EXPECT_LT(resident("RssAnon"), before_resident + (8 << 20));
}

}  // namespace
}  // namespace trl::train::growth_test
