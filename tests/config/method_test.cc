// The table of methods, and what is made from it.
#include "config/method.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/files/files.h"
#include "config/config.h"
#include "config/training_arguments.h"

namespace trl::config {
namespace {

TEST(MethodTable, HasTheMethodsOfThisVersionFirst) {
  std::string built, all;
  for (const MethodRow& row : methods()) built += std::string(row.name) + " ";
  for (const MethodRow& row : trainers()) all += std::string(row.name) + " ";
  EXPECT_EQ(built, "sft dpo reward kto grpo rloo distillation gkd online_dpo ppo ");
  EXPECT_EQ(all, built);
  EXPECT_EQ(find_method("kto"), &methods()[3]);
  EXPECT_EQ(find_method("gkb"), nullptr);
  EXPECT_EQ(find_method(""), nullptr);
}

TEST(MethodTable, EachTrainerHasTheBitOfItsPlace) {
  for (size_t i = 0; i < trainers().size(); ++i) EXPECT_EQ(trainer_names(1u << i, ","), trainers()[i].name);
  EXPECT_EQ(kAllTrainers, (1u << trainers().size()) - 1);
  EXPECT_EQ(find_option("record_rollouts")->trainers,
            kGrpo | kRloo | kGkd | kDistillation | kOnlineDpo | kPpo);
}

TEST(MethodTable, MakesTheOptionThatNamesThem) {
  const Option& method = *find_option("method");
  EXPECT_EQ(method.default_value, "sft");
  EXPECT_EQ(method.accepted, "sft|dpo|reward|kto|grpo|rloo|distillation|gkd|online_dpo|ppo");
  EXPECT_EQ(method.no_ops, "dpo|reward|kto|grpo|rloo|distillation|gkd|online_dpo|ppo");
  EXPECT_EQ(method.unsupported,
            "the methods in this build are sft, dpo, reward, kto, grpo, rloo, distillation, gkd, online_dpo "
            "and ppo");
  for (const std::string_view text :
       {method.default_value, method.accepted, method.no_ops, method.unsupported})
    EXPECT_EQ(text.data()[text.size()], '\0') << text << ": the C API gives it as it is";
}

TEST(MethodTable, ARowOfEachMethodIsWhole) {
  for (const MethodRow& row : methods()) {
    EXPECT_NE(std::string(row.summary), "") << row.name;
    EXPECT_NE(std::string(row.about), "") << row.name;
    EXPECT_NE(std::string(row.tag), "") << row.name;
    EXPECT_TRUE(base::file_exists(std::string(TRL_SOURCE_DIR "/src/train/methods/") + row.name + ".cc"));
    Config config;
    config.set("method", row.name);
    EXPECT_EQ(&config.method(), &row);
    EXPECT_EQ(training_arguments(config).method, &row);
    for (const MethodFlag& flag : row.flags) {
      if (flag.name != nullptr) {
        EXPECT_TRUE(is_of(*find_option(flag.name), row.name)) << flag.name;
      }
    }
  }
}

TEST(MethodTable, CountsTheSequencesOfARow) {
  const auto sequences = [](std::initializer_list<std::pair<const char*, const char*>> settings) {
    Config config;
    for (const auto& [key, value] : settings) config.set(key, value);
    return sequences_per_row(training_arguments(config));
  };
  EXPECT_EQ(sequences({}), 1);
  EXPECT_EQ(sequences({{"method", "dpo"}}), 2);
  EXPECT_EQ(sequences({{"method", "reward"}}), 2);
  EXPECT_EQ(sequences({{"method", "kto"}}), 2);
  EXPECT_EQ(sequences({{"method", "kto"}, {"loss_type", "apo_zero_unpaired"}}), 1);
}

}  // namespace
}  // namespace trl::config
