// profile_parts: what a step says of where its seconds went.
#include <chrono>
#include <map>

#include "tensor/threads/parallel.h"
#include "train/tiny_run.h"

namespace trl::train {
namespace {

using test::tiny_run;
using Values = std::map<std::string, double>;

Values values(const telemetry::Record& record) {
  Values all;
  for (const telemetry::Entry& entry : record.entries()) all[entry.name] = entry.value;
  return all;
}

TEST(Profile, parts_add_up_to_the_step) {
  TRL_NEED_TINY_RUN();
  test::SftRun run = tiny_run({{"profile_parts", "true"}, {"max_steps", "1"}});
  Trainer& trainer = run.start();
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(trainer.step());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const Values step = values(trainer.metrics());
  double sum = 0;
  for (const char* part : {"gemm", "attention", "elementwise", "head", "optimizer", "other"}) {
    const std::string name = std::string("profile/") + part;
    ASSERT_TRUE(step.contains(name)) << name;
    EXPECT_GT(step.at(name), 0) << name;
    sum += step.at(name);
  }
  EXPECT_LE(sum, seconds);
  EXPECT_GT(sum, 0.2 * seconds);
  // Four rows, each a document whose last position has no target.
  const double tokens = step.at("num_tokens");
  EXPECT_EQ(step.at("profile/loss_tokens"), tokens - 4);
  EXPECT_GE(step.at("profile/document_length"), tokens / 4);  // never below the plain mean
  EXPECT_LT(step.at("profile/document_length"), tokens);
  EXPECT_EQ(values(trainer.state().log_history.front()).at("profile/gemm"), step.at("profile/gemm"));
}

TEST(Profile, changes_nothing_else) {
  TRL_NEED_TINY_RUN();
  const auto losses = [](const char* on) {
    test::SftRun run = tiny_run({{"profile_parts", on}, {"max_steps", "2"}});
    Trainer& trainer = run.start();
    std::vector<double> all;
    while (trainer.step()) all.push_back(values(trainer.metrics()).at("loss"));
    EXPECT_EQ(values(trainer.metrics()).contains("profile/gemm"), std::string_view(on) == "true");
    return all;
  };
  EXPECT_EQ(losses("true"), losses("false"));
}

TEST(Profile, a_part_within_another_is_the_outer_one) {
  tensor::PartTimes times;
  {
    const tensor::TimeParts timing(&times);
    const tensor::Timed head(tensor::Part::head);
    const tensor::Timed gemm(tensor::Part::gemm);
    tensor::parallel_for(4, 1, [](int64_t, int64_t) {});
  }
  EXPECT_GT(times.seconds(tensor::Part::head), 0);
  EXPECT_EQ(times.seconds(tensor::Part::gemm), 0);
  EXPECT_EQ(times.seconds(tensor::Part::elementwise), 0);
  const tensor::Timed outside(tensor::Part::gemm);  // nothing is timed here
  EXPECT_EQ(times.seconds(tensor::Part::gemm), 0);
}

}  // namespace
}  // namespace trl::train
