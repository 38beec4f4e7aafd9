// What a run that answers requests meanwhile reads of a configuration, and what it refuses.
#include "config/beside_arguments.h"

#include <gtest/gtest.h>

#include "config/settings.h"
#include "config/training_arguments.h"

namespace trl::config {
namespace {

TEST(BesideArguments, AreThereWithAShare) {
  EXPECT_FALSE(beside_arguments(Config()));
  EXPECT_FALSE(beside_arguments(config_of("grpo")));
  const auto usual = beside_arguments(config_with({{"use_peft", "true"}, {"serve_share", "0.25"}}));
  ASSERT_TRUE(usual);
  EXPECT_EQ(usual->share, 0.25);
  EXPECT_FALSE(usual->swaps_within);
  EXPECT_EQ(usual->versions, 4);
  const auto other = beside_arguments(config_of(
      "dpo",
      {{"use_peft", "true"}, {"serve_share", "0.5"}, {"serve_swap", "token"}, {"serve_versions", "2"}}));
  EXPECT_TRUE(other->swaps_within);
  EXPECT_EQ(other->versions, 2);
}

TEST(BesideArguments, OtherRunsTakeTurns) {
  const auto refused = [](std::string_view key, std::string_view value) {
    return refusal_of([&] {
      beside_arguments(config_with({{"use_peft", "true"}, {"serve_share", "0.5"}, {key, value}}));
    });
  };
  EXPECT_EQ(refused("use_peft", "false"),
            "serve_share: 0.5 contradicts use_peft: false, because all weights change in each step, and only "
            "an adapter has copies to answer with: change it, or leave serve_share out, and generators take "
            "turns with the steps");
  EXPECT_TRUE(refused("memory_budget", "4GiB").starts_with("serve_share: 0.5 contradicts memory_budget: "));
  EXPECT_TRUE(beside_arguments(config_with({{"use_peft", "true"},
                                            {"serve_share", "0.5"},
                                            {"memory_budget", "4GiB"},
                                            {"estimate.prompt_tokens", "64"}})));
  EXPECT_TRUE(refused("fused_kernels", "off").starts_with("serve_share: 0.5 contradicts fused_kernels: off"));
  for (const char* const value : {"0", "1", "half"})
    EXPECT_TRUE(refused("serve_share", value).starts_with("serve_share: ")) << value;
  EXPECT_TRUE(refused("serve_versions", "1").starts_with("serve_versions: "));
}

TEST(BesideArguments, WithoutAShareTheOthersHaveNoEffect) {
  for (const char* const key : {"serve_swap", "serve_versions"}) {
    const auto lines = idle_options(config_with({{key, key == std::string("serve_swap") ? "token" : "8"}}));
    ASSERT_EQ(lines.size(), 1u) << key;
    EXPECT_EQ(lines[0], std::string(key) + ": it has an effect only with serve_share");
  }
}

}  // namespace
}  // namespace trl::config
