// The option table has what TRL's online trainers have, with their defaults.
#include <gtest/gtest.h>

#include <set>

#include "config/table/option_value.h"
#include "trl_fields.h"
#include "trl_fields_online.h"

namespace trl::config {
namespace {

using OptionNames = std::set<std::pair<std::string_view, std::string_view>>;

// Defaults that say here how TRL acts, where TRL's own default says something else or names a model of the
// Hub.
const OptionNames& other_defaults() {
  static const OptionNames names = {
      {"gkd", "truncation_mode"},          {"gkd", "router_aux_loss_coef"},
      {"ppo", "sft_model_path"},           {"ppo", "reward_model_path"},
      {"online_dpo", "reward_model_path"}, {"grpo", "vllm_importance_sampling_cap"}};
  return names;
}

void check_field(std::string_view trainer, std::string_view name, std::string_view default_value) {
  const Option* const option = find_option(name);
  ASSERT_NE(option, nullptr) << trainer << " " << name;
  EXPECT_TRUE(is_of(*option, trainer)) << trainer << " " << name;
  if (other_defaults().contains({trainer, name})) return;
  EXPECT_EQ(option->name, name);
  const bool words = option->type == OptionType::text && default_value != "null";
  EXPECT_EQ(words ? default_value : canonical_value(*option, name, default_value),
            default_of(*option, trainer))
      << trainer << " " << name;
}

TEST(OnlineTable, HasEveryFieldOfTrlWithItsDefault) {
  std::map<std::string_view, int> counts;
  for (const test::TrainerField& field : test::kOnlineFields) {
    check_field(field.trainer, field.name, field.default_value);
    ++counts[field.trainer];
  }
  EXPECT_EQ(
      counts,
      (std::map<std::string_view, int>{
          {"grpo", 75}, {"rloo", 49}, {"gkd", 8}, {"distillation", 35}, {"online_dpo", 30}, {"ppo", 24}}));
}

// PPOTrainer clips no gradient and logs each batch, whatever these say; here they have an effect.
bool has_no_effect_in_ppo(std::string_view field) {
  return field == "max_grad_norm" || field == "logging_steps";
}

TEST(OnlineTable, SharesTheOtherFieldsWithSft) {
  OptionNames own, lacked;
  for (const test::TrainerField& field : test::kOnlineFields) own.insert({field.trainer, field.name});
  for (const test::TrainerField& field : test::kLackedFields) lacked.insert({field.trainer, field.name});
  int shared = 0;
  for (const MethodRow& trainer : trainers()) {
    if (!trainer.generates) continue;
    for (const test::Field& field : test::kTrlFields) {
      if (field.section != "SFTConfig" || own.contains({trainer.name, field.name})) continue;
      if (lacked.contains({trainer.name, field.name})) {
        // moves activations in every method; TRL's script for PPO has it from ModelConfig
        const bool here = field.name == "activation_offloading" || field.name == "trust_remote_code";
        EXPECT_EQ(is_of(*find_option(field.name), trainer.name), here) << trainer.name << " " << field.name;
        continue;
      }
      if (std::string_view(trainer.name) == "ppo" && has_no_effect_in_ppo(field.name)) continue;
      check_field(trainer.name, field.name, field.default_value);
      ++shared;
    }
  }
  EXPECT_GT(shared, 6 * 100);
}

TEST(OnlineTable, HasNoKeyOfTrlThatTrlDoesNotHave) {
  OptionNames fields;
  for (const test::TrainerField& field : test::kOnlineFields)
    fields.insert({field.trainer, find_option(field.name)->name});
  for (const Option& option : options()) {
    const bool of_classes = option.section.ends_with("Config") && option.origin == "trl";
    if (!of_classes || (option.trainers & kSft) != 0) continue;
    for (const MethodRow& trainer : trainers()) {
      if (!trainer.generates || !is_of(option, trainer.name)) continue;
      const bool more = option.name == "generation_kwargs" || option.name == "disable_dropout";  // of all six
      const bool several = std::string_view(trainer.name) == "ppo" && option.name == "reward_weights";
      EXPECT_TRUE(more || several || fields.contains({trainer.name, option.name}))
          << trainer.name << " " << option.name;
    }
  }
}

}  // namespace
}  // namespace trl::config
