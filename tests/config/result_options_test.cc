// What a checkpoint remembers of the options that made it.
#include <gtest/gtest.h>

#include "config/settings.h"
#include "config/training_arguments.h"

namespace trl::config {
namespace {

std::string remembered(const Settings& settings, std::string_view name) {
  const Config config = config_with(settings);
  for (const auto& [option, value] : result_options(config, training_arguments(config)))
    if (option == name) return value;
  return "none";
}

TEST(ResultOptions, NamesThatAreOneHereAreOne) {
  EXPECT_EQ(remembered({{"adafactor", "true"}}, "optim"), "adafactor");
  EXPECT_EQ(remembered({{"optim", "adamw_torch"}}, "optim"), remembered({}, "optim"));
  EXPECT_EQ(remembered({{"optim", "adamw_bnb_8bit"}}, "optim"), "adamw_8bit");
  EXPECT_EQ(remembered({{"optim", "rmsprop_bnb_32bit"}}, "optim"), "rmsprop_bnb");
  EXPECT_EQ(remembered({{"optim", "paged_adamw_8bit"}}, "optim"), "adamw_8bit");
  EXPECT_EQ(remembered({{"warmup_ratio", "0.25"}}, "warmup_steps"), "0.25");
  EXPECT_EQ(remembered({{"bf16", "false"}, {"mixed_precision", "bf16"}}, "bf16"), "true");
  EXPECT_EQ(remembered({{"use_liger_kernel", "true"}}, "fused_kernels"), remembered({}, "fused_kernels"));
  EXPECT_EQ(remembered({}, "attn_implementation"), "built-in");
  EXPECT_EQ(remembered({{"attn_implementation", "flash_attention_2"}}, "attn_implementation"), "built-in");
  const std::string plugin = "plugin:" TRL_SOURCE_DIR "/README.md";
  EXPECT_EQ(remembered({{"attn_implementation", plugin}}, "attn_implementation"), plugin);
}

TEST(ResultOptions, WhatRoundsSumsOtherwiseIsRemembered) {
  EXPECT_EQ(remembered({{"max_tokens_per_pass", "4096"}}, "max_tokens_per_pass"), "4096");
  EXPECT_EQ(remembered({}, "max_tokens_per_pass"), "null");
  EXPECT_EQ(remembered({{"share_prefix", "false"}}, "share_prefix"), "false");
}

TEST(ResultOptions, LossesOfPreferencesAreRemembered) {
  EXPECT_EQ(remembered({{"method", "dpo"}, {"ld_alpha", "0.5"}}, "ld_alpha"), "0.5");
  EXPECT_EQ(remembered({{"method", "dpo"}, {"max_prompt_length", "64"}}, "max_prompt_length"), "64");
  EXPECT_EQ(remembered({{"method", "reward"}}, "center_rewards_coefficient"), "null");
  EXPECT_EQ(remembered({}, "ld_alpha"), "none");
  EXPECT_EQ(remembered({{"method", "dpo"}, {"share_prefix_window", "8"}}, "share_prefix_window"), "8");
}

// The column of the option table says which caches and checkpoints an option counts for.
TEST(ResultOptions, EachOptionCountsForWhatItAffects) {
  const auto counts = [](const std::string& name, const std::string& value) {
    const Config before = config_with({}), after = config_with({{name, value}});
    const auto differ = [&](Affects first, Affects last) {
      return before.values_that_affect(first, last) != after.values_that_affect(first, last);
    };
    return std::vector<bool>{differ(Affects::rows, Affects::rows), differ(Affects::source, Affects::batches),
                             differ(Affects::source, Affects::weights)};
  };
  EXPECT_EQ(counts("max_length", "5"), (std::vector<bool>{true, true, true}));
  EXPECT_EQ(counts("dataset_text_field", "x"), (std::vector<bool>{true, true, true}));
  EXPECT_EQ(counts("split_special_tokens", "true"), (std::vector<bool>{true, true, true}));
  EXPECT_EQ(counts("dataset_name", "x"), (std::vector<bool>{false, true, true}));
  EXPECT_EQ(counts("per_device_train_batch_size", "5"), (std::vector<bool>{false, true, true}));
  EXPECT_EQ(counts("learning_rate", "5"), (std::vector<bool>{false, false, true}));
  EXPECT_EQ(counts("use_peft", "true"), (std::vector<bool>{false, false, true}));
  EXPECT_EQ(counts("logging_steps", "5"), (std::vector<bool>{false, false, false}));
  EXPECT_EQ(counts("gradient_checkpointing", "false"), (std::vector<bool>{false, false, false}));
}

TEST(ResultOptions, SourcesCountByTheirContent) {
  EXPECT_EQ(remembered({{"dataset_name", "x"}}, "dataset_name"), "none");
  EXPECT_EQ(remembered({{"eval_packing", "false"}}, "eval_packing"), "none");
  EXPECT_EQ(remembered({{"load_in_4bit", "true"}, {"use_peft", "true"}}, "load_in_4bit"), "true");
  EXPECT_EQ(remembered({{"dataset_text_field", "x"}}, "dataset_text_field"), "x");
}

TEST(ResultOptions, WhatHasNoEffectIsLeftOut) {
  EXPECT_EQ(remembered({}, "num_train_epochs"), "3");
  EXPECT_EQ(remembered({{"max_steps", "4"}}, "num_train_epochs"), "none");
  EXPECT_EQ(remembered({}, "adam_beta1"), "0.9");
  EXPECT_EQ(remembered({{"optim", "sgd"}}, "adam_beta1"), "none");
  EXPECT_EQ(remembered({{"optim", "ademamix_8bit"}}, "adam_beta1"), "0.9");
  EXPECT_EQ(remembered({{"optim", "ademamix_8bit"}}, "optim_8bit_embeddings"), "false");
  EXPECT_EQ(remembered({{"optim", "ademamix"}}, "optim_8bit_embeddings"), "none");
  EXPECT_EQ(remembered({}, "eval_steps"), "none");
  const Settings plateau = {
      {"lr_scheduler_type", "reduce_lr_on_plateau"}, {"eval_strategy", "steps"}, {"eval_steps", "4"}};
  EXPECT_EQ(remembered(plateau, "eval_steps"), "4");
  EXPECT_EQ(remembered({{"lora_r", "4"}}, "lora_r"), "none");
  EXPECT_EQ(remembered({}, "frozen_compute"), "none");
  EXPECT_EQ(remembered({{"use_peft", "true"}, {"frozen_compute", "int8"}}, "frozen_compute"), "int8");
  EXPECT_EQ(remembered({{"lora_r", "4"}, {"use_peft", "true"}}, "lora_r"), "4");
}

}  // namespace
}  // namespace trl::config
