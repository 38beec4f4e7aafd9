// Runs with frozen_compute: int8.
#include "kernels/gemm/gemm_int8.h"
#include "train/tiny_run.h"

namespace trl::train {
namespace {

using test::Settings;
using test::start_adapter;

constexpr const char* kAdapter =
    R"({"r": 4, "lora_alpha": 8, "lora_dropout": 0.1, "target_modules": "all-linear"})";

Settings with(Settings settings, const char* frozen_compute = "int8") {
  settings.emplace_back("use_peft", "true");
  settings.emplace_back("bf16", "true");
  settings.emplace_back("frozen_compute", frozen_compute);
  return settings;
}

std::vector<double> losses_of(const Settings& settings) {
  test::SftRun run = test::tiny_run(settings);
  Trainer& trainer = start_adapter(run, kAdapter);
  std::vector<double> losses;
  while (trainer.step()) losses.push_back(test::value(trainer.metrics(), "loss"));
  return losses;
}

#define TRL_NEED_INT8_RUN()                                                                \
  TRL_NEED_TINY_RUN();                                                                     \
  if (!kernels::has_int8_products()) {                                                     \
    GTEST_SKIP() << "this processor has no products in 8-bit integers (AVX512-VNNI, AMX)"; \
  }

TEST(Int8Run, LearnsAsInBfloat16) {
  TRL_NEED_INT8_RUN();
  for (const char* dtype : {"float32", "bfloat16"}) {
    const Settings settings = {{"max_steps", "6"}, {"dtype", dtype}, {"learning_rate", "1e-2"}};
    const std::vector<double> got = losses_of(with(settings)), want = losses_of(with(settings, "auto"));
    ASSERT_EQ(got.size(), want.size());
    EXPECT_NE(got[0], want[0]) << "int8 has changed nothing";
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 0.01) << dtype << ", step " << i;
    EXPECT_LT(got.back(), got.front()) << dtype;
  }
}

TEST(Int8Run, ResumesAndRecomputesToTheSameBits) {
  TRL_NEED_INT8_RUN();
  std::vector<std::vector<at::Tensor>> results;
  for (const char* recompute : {"false", "true"}) {
    const test::Scratch scratch;
    const std::string output = scratch / "whole", other = scratch / "again";
    const auto run_in = [&](const std::string& directory) {
      return test::tiny_run(with({{"max_steps", "4"},
                                  {"save_strategy", "steps"},
                                  {"save_steps", "2"},
                                  {"gradient_checkpointing", recompute},
                                  {"output_dir", directory.c_str()}}));
    };
    test::SftRun whole = run_in(output), again = run_in(other);
    Trainer& trainer = start_adapter(whole, kAdapter);
    while (trainer.step()) {
    }
    Trainer& resumed = start_adapter(again, kAdapter);
    resumed.resume(output + "/checkpoint-2");
    while (resumed.step()) {
    }
    for (test::SftRun* run : {&whole, &again}) {
      auto& values = results.emplace_back();
      for (tensor::Parameter* p : run->model().adapters().get("default").parameters())
        values.push_back(p->read()->clone());
    }
  }
  for (const auto& values : results)
    for (size_t i = 0; i < values.size(); ++i) EXPECT_TRUE(at::equal(values[i], results[0][i])) << i;
}

// Two bytes for each element of the projections, while the trainer lives; then the model computes as before.
TEST(Int8Run, ItsBytesAreCountedAndGo) {
  TRL_NEED_INT8_RUN();
  test::SftRun run = test::tiny_run(with({{"max_steps", "1"}}));
  int64_t elements = 0;
  for (const tensor::Parameter* p : run.model().parameters())
    if (p->name.find("_proj.weight") != std::string::npos) elements += p->count();
  ASSERT_GT(elements, 0);
  const auto weights = [] { return test::memory().now(base::MemoryKind::weights); };
  const int64_t before = weights();
  Trainer& trainer = start_adapter(run, kAdapter);
  int64_t adapter = 0;
  for (const tensor::Parameter* p : run.model().adapters().get("default").parameters())
    adapter += 4 * p->count();
  EXPECT_GE(weights(), before + adapter + 2 * elements);
  trainer.step();
  const int64_t with_trainer = weights();
  run.stop();
  EXPECT_LE(weights(), with_trainer - 2 * elements);
}

std::string refusal(test::SftRun& run) {
  try {
    start_adapter(run, kAdapter);
  } catch (const Error& error) {
    EXPECT_EQ(error.key(), "frozen_compute");
    return error.message();
  }
  return "";
}

TEST(Int8Run, IsRefusedWhereThereIsNothingToGain) {
  TRL_NEED_TINY_RUN();
  Settings single = with({});
  single.emplace_back("bf16", "false");
  test::SftRun in_float32 = test::tiny_run(single);
  EXPECT_NE(refusal(in_float32).find("these are in float32"), std::string::npos);
  test::SftRun quantised = test::tiny_run(with({{"load_in_8bit", "true"}}, "auto"));
  quantised.setup.arguments.frozen_compute = config::FrozenCompute::int8;
  const std::string message = refusal(quantised);
  EXPECT_NE(message.find("q_proj.weight is held as int8"), std::string::npos) << message;
}

}  // namespace
}  // namespace trl::train
