// Copies of the weights in the type that is computed in: where they are kept, what they take, and that no bit
// depends on them.
#include "train/tiny_run.h"

namespace trl::train {
namespace {

using base::MemoryKind;
using test::tiny_run;

constexpr int64_t kAmple = int64_t{1} << 40;

struct Outcome {
  std::vector<at::Tensor> weights;
  int64_t copies = 0, peak = 0;  // bytes
};

// limits: of each step
Outcome outcome(const test::Settings& settings, const std::vector<int64_t>& limits) {
  test::SftRun run = tiny_run(settings);
  const int64_t before = test::memory().now(MemoryKind::weights);
  Outcome result;
  test::memory().reset_peak();
  Trainer& trainer = run.start();
  for (const int64_t limit : limits) {
    test::memory().set_limit(limit);
    EXPECT_TRUE(trainer.step());
    result.copies = test::memory().now(MemoryKind::weights) - before;
  }
  test::memory().set_limit(0);
  result.peak = test::memory().peak();
  run.stop();
  EXPECT_EQ(test::memory().now(MemoryKind::weights), before);
  result.weights = run.weights();
  return result;
}

void expect_same(const Outcome& got, const Outcome& want) {
  for (size_t i = 0; i < want.weights.size(); ++i)
    EXPECT_TRUE(at::equal(got.weights[i], want.weights[i])) << i;
}

TEST(Copies, AreKeptWithoutAMemoryLimitAndChangeNoBit) {
  TRL_NEED_TINY_RUN();
  for (const char* checkpointing : {"false", "true"}) {
    const test::Settings autocast = {
        {"max_steps", "3"}, {"bf16", "true"}, {"gradient_checkpointing", checkpointing}};
    const Outcome free = outcome(autocast, {0, 0, 0});
    int64_t matrices = 0, rest = 0;
    for (const at::Tensor& weight : free.weights) (weight.dim() == 2 ? matrices : rest) += weight.numel();
    const int64_t padding = std::ssize(free.weights) * 4096;
    EXPECT_GE(free.copies, 2 * matrices);
    EXPECT_LE(free.copies, 2 * (matrices + rest) + padding);
    const Outcome limited = outcome(autocast, {kAmple, kAmple, kAmple});
    EXPECT_EQ(limited.copies, 0);
    EXPECT_LE(free.peak, limited.peak + free.copies);
    expect_same(free, limited);
    // A limit that comes later, and one that goes.
    const Outcome then = outcome(autocast, {0, 0, kAmple}), first = outcome(autocast, {kAmple, 0, 0});
    EXPECT_EQ(then.copies, 0);
    EXPECT_EQ(first.copies, free.copies);
    expect_same(then, free);
    expect_same(first, free);
  }
}

TEST(Copies, AreNotMadeOfWeightsThatAreComputedWithAsTheyAre) {
  TRL_NEED_TINY_RUN();
  for (const test::Settings& settings : {test::Settings{{"max_steps", "1"}, {"dtype", "float32"}},
                                         test::Settings{{"max_steps", "1"}, {"dtype", "bfloat16"}}})
    EXPECT_EQ(outcome(settings, {0}).copies, 0);
}

}  // namespace
}  // namespace trl::train
