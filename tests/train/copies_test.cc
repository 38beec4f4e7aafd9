// Copies of the weights in the type that is computed in: where they are kept and for how long, what they
// take, and that no bit depends on them.
#include "train/tiny_run.h"

namespace trl::train {
namespace {

using base::MemoryKind;
using test::tiny_run;

constexpr int64_t kAmple = int64_t{1} << 40;

struct CopiesOutcome {
  std::vector<at::Tensor> weights;
  int64_t copies = 0, peak = 0;  // bytes
};

// limits: of each step
CopiesOutcome outcome(const test::Settings& settings, const std::vector<int64_t>& limits) {
  test::SftRun run = tiny_run(settings);
  const int64_t before = test::memory().now(MemoryKind::weights);
  CopiesOutcome result;
  Trainer& trainer = run.start();
  for (const int64_t limit : limits) {
    test::memory().set_limit(limit);
    test::memory().reset_peak();
    EXPECT_TRUE(trainer.step());
    result.copies = test::memory().peak(MemoryKind::weights) - before;
    result.peak = std::max(result.peak, test::memory().peak());
    EXPECT_EQ(test::memory().now(MemoryKind::weights), before);  // backward has dropped them
  }
  test::memory().set_limit(0);
  run.stop();
  EXPECT_EQ(test::memory().now(MemoryKind::weights), before);
  result.weights = run.weights();
  return result;
}

void expect_same(const CopiesOutcome& got, const CopiesOutcome& want) {
  for (size_t i = 0; i < want.weights.size(); ++i)
    EXPECT_TRUE(at::equal(got.weights[i], want.weights[i])) << i;
}

TEST(Copies, AreKeptWithoutAMemoryLimitAndChangeNoBit) {
  TRL_NEED_TINY_RUN();
  for (const char* checkpointing : {"false", "true"}) {
    const test::Settings autocast = {
        {"max_steps", "3"}, {"bf16", "true"}, {"gradient_checkpointing", checkpointing}};
    const CopiesOutcome free = outcome(autocast, {0, 0, 0});
    int64_t matrices = 0, rest = 0;
    for (const at::Tensor& weight : free.weights) (weight.dim() == 2 ? matrices : rest) += weight.numel();
    const int64_t padding = std::ssize(free.weights) * 4096;
    EXPECT_GE(free.copies, 2 * matrices);
    EXPECT_LE(free.copies, 2 * (matrices + rest) + padding);
    const CopiesOutcome limited = outcome(autocast, {kAmple, kAmple, kAmple});
    EXPECT_EQ(limited.copies, 0);
    EXPECT_LE(free.peak, limited.peak + free.copies);
    expect_same(free, limited);
    // A limit that comes later, and one that goes.
    const CopiesOutcome then = outcome(autocast, {0, 0, kAmple}), first = outcome(autocast, {kAmple, 0, 0});
    EXPECT_EQ(then.copies, 0);
    EXPECT_EQ(first.copies, free.copies);
    expect_same(then, free);
    expect_same(first, free);
  }
}

// A step of one large micro-batch: they go with each layer, and are made again in its backward.
TEST(Copies, AreBriefWhereALayerIsComputedAgainForManyTokens) {
  TRL_NEED_TINY_RUN();
  const auto of_rows = [](const char* rows) {
    return outcome({{"max_steps", "2"},
                    {"bf16", "true"},
                    {"gradient_checkpointing", "true"},
                    {"pad_to_multiple_of", "64"},
                    {"per_device_train_batch_size", rows}},
                   {0, 0});
  };
  const CopiesOutcome many = of_rows("64"), few = of_rows("4");
  EXPECT_GT(many.copies, 0);
  EXPECT_LT(many.copies, few.copies * 3 / 4);
}

TEST(Copies, AreNotMadeOfWeightsThatAreComputedWithAsTheyAre) {
  TRL_NEED_TINY_RUN();
  for (const test::Settings& settings : {test::Settings{{"max_steps", "1"}, {"dtype", "float32"}},
                                         test::Settings{{"max_steps", "1"}, {"dtype", "bfloat16"}}})
    EXPECT_EQ(outcome(settings, {0}).copies, 0);
}

}  // namespace
}  // namespace trl::train
