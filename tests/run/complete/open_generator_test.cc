// The memory that keys and values of generation may take.
#include "run/complete/open_generator.h"

#include <gtest/gtest.h>

#include "config/settings.h"
#include "run/complete/small_process.h"

namespace trl::run {
namespace {

using test::SmallProcess;

int64_t bytes(const config::Settings& settings) {
  SmallProcess process;
  return generator_spec(process, config::config_of("grpo", settings)).cache_bytes;
}

TEST(CacheMemory, IsAShareOrBytes) {
  EXPECT_EQ(bytes({}), 500);
  EXPECT_EQ(bytes({{"kv_cache_memory", "25%"}}), 250);
  EXPECT_EQ(bytes({{"kv_cache_memory", "123"}}), 123);
  EXPECT_EQ(bytes({{"vllm_gpu_memory_utilization", "0.3"}}), 300);
  EXPECT_EQ(bytes({{"vllm_gpu_memory_utilization", "null"}}), 500);
}

TEST(CacheMemory, HasOneName) {
  EXPECT_EQ(
      config::refusal_of([] {
        bytes({{"kv_cache_memory", "25%"}, {"vllm_gpu_memory_utilization", "0.3"}});
      }),
      "vllm_gpu_memory_utilization: 0.3 and kv_cache_memory: 25% are both given, and mean the same: give "
      "one of them");
}

// Generators of a trainer share its cache only if they compute alike.
TEST(TrainingGeneratorSpec, ComputesAsTrainingDoes) {
  SmallProcess process;
  const auto spec = [&](const config::Settings& settings) {
    return training_generator_spec(process, config::config_of("grpo", settings));
  };
  EXPECT_TRUE(spec({}).bf16);
  EXPECT_FALSE(spec({{"bf16", "false"}}).bf16);
  EXPECT_FALSE(spec({}).plain);
  EXPECT_TRUE(spec({{"fused_kernels", "off"}}).plain);
  EXPECT_FALSE(spec({}).sleeps);
  EXPECT_TRUE(spec({{"vllm_enable_sleep_mode", "true"}}).sleeps);
  EXPECT_FALSE(generator_spec(process, config::config_of("grpo", {})).bf16);
}

TEST(TrainingGeneratorSpec, LetsLongPromptsDecideOfThePositions) {
  SmallProcess process;
  EXPECT_TRUE(generator_spec(process, config::config_of("sft", {})).within_positions);
  EXPECT_TRUE(training_generator_spec(process, config::config_of("sft", {})).within_positions);
  EXPECT_FALSE(training_generator_spec(process, config::config_of("grpo", {})).within_positions);
}

TEST(CopiesOfWeights, LeaveOutAHeadInFloat32) {
  const auto copies_head = [](const config::Settings& settings) {
    return cache_spec(config::config_of("grpo", settings)).copies_head;
  };
  EXPECT_TRUE(copies_head({{"generation_dtype", "bfloat16"}}));
  EXPECT_FALSE(copies_head({{"generation_dtype", "bfloat16"}, {"cast_lm_head_to_fp32", "true"}}));
}

}  // namespace
}  // namespace trl::run
