// Names and values of other tools: errors say what they are here.
#include "config/table/option_value.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "config/config.h"
#include "support/error_of.h"

namespace trl::config {
namespace {

std::string refusal(const std::function<void()>& body) { return test::error_of(body).second; }

TEST(OtherNames, EachIsOfAKeyOfTheTableAndNoneOfItself) {
  std::set<std::string_view> seen;
  size_t count = 0;
  for (const Option& option : options()) {
    for (const std::string_view name : split_words(other_names(option), ',')) {
      EXPECT_EQ(find_option(name), nullptr)
          << name << " is accepted, and stands among the names of " << option.name;
      EXPECT_TRUE(seen.insert(name).second) << name << " is that of two keys";
      ++count;
    }
  }
  EXPECT_GT(count, 200u);
}

TEST(OtherNames, AnErrorSaysTheKey) {
  const std::pair<const char*, const char*> kNames[] = {{"base_model", "model_name_or_path"},
                                                        {"sequence_len", "max_length"},
                                                        {"cutoff_len", "max_length"},
                                                        {"micro_batch_size", "per_device_train_batch_size"},
                                                        {"lr", "learning_rate"},
                                                        {"epochs", "num_train_epochs"},
                                                        {"batch_size", "per_device_train_batch_size"},
                                                        {"lora_rank", "lora_r"},
                                                        {"num-epochs", "num_train_epochs"},
                                                        {"sample_packing", "packing"},
                                                        {"finetuning_type", "use_peft"},
                                                        {"lora_target", "lora_target_modules"},
                                                        {"val_set_size", "test_split_size"},
                                                        {"max_tokens", "generate.max_new_tokens"},
                                                        {"typical_p", "generate.typical_p"},
                                                        {"host-memory-limit", "runtime.host_memory_limit"}};
  for (const auto& [name, key] : kNames) {
    Config config;
    EXPECT_EQ(refusal([&, name = name] { config.set(name, "1"); }),
              std::string("'") + name + "': unknown key; the key for it is " + key);
  }
}

TEST(OtherNames, AGroupMayHaveTheNameToo) {
  EXPECT_EQ(unknown_key("adapter", "sft"),
            "'adapter': unknown key; the key for it is use_peft, or generate.adapter");
}

TEST(OtherNames, AKeyOfAnotherTrainerMayHaveANameHere) {
  Config config;
  config.set("temperature", "0.5");
  EXPECT_EQ(
      refusal([&] { config.check_method(); }),
      "temperature: sft does not have this key; it is one of grpo, rloo, distillation, gkd, online_dpo, ppo; "
      "the key for it is generate.temperature");
}

TEST(OtherNames, TheKeyIsOneOfTheTrainer) {
  EXPECT_EQ(unknown_key("pref_beta", "dpo"), "'pref_beta': unknown key; the key for it is beta");
  EXPECT_EQ(unknown_key("pref_beta", "sft").find("beta;"), std::string::npos);
  EXPECT_EQ(unknown_key("sample_packing", "dpo").find("is packing"), std::string::npos);
}

TEST(OtherNames, AFileIsToldAllItsUnknownKeysAtOnce) {
  Config config;
  const std::string text =
      "base_model: m\nlearning_rate: 0.1\nsequence_len: 5\nlearning_rat: 1\nqqqqqqqq: {a: 1}\n";
  EXPECT_EQ(
      refusal([&] { config.load_text(text, "c.yaml"); }),
      "c.yaml: 4 keys are unknown; line 1: 'base_model': unknown key; the key for it is model_name_or_path; "
      "line 3: 'sequence_len': unknown key; the key for it is max_length; "
      "line 4: 'learning_rat': unknown key; the nearest is learning_rate; line 5: 'qqqqqqqq': unknown key");
  EXPECT_FALSE(config.is_set("learning_rate"));
  // A wrong value before them does not hide them.
  EXPECT_EQ(refusal([&] { config.load_text("max_length: x\nlr: 1\n", "c.yaml"); }),
            "c.yaml:2: 'lr': unknown key; the key for it is learning_rate");
}

TEST(OtherNames, ValuesOfEarlierReleasesSayWhatBecameOfThem) {
  const std::pair<const char*, const char*> kValues[] = {{"kto_pair", "trl kto"},
                                                         {"[sigmoid, kto_pair]", "trl kto"},
                                                         {"aot_pair", "it is called aot_unpaired now"},
                                                         {"simpo", "sigmoid_norm"},
                                                         {"orpo", "a trainer of its own"},
                                                         {"bco", "bco_pair"}};
  for (const auto& [value, what] : kValues) {
    Config config;
    config.set("method", "dpo");
    const std::string error = refusal([&, value = value] { config.set("loss_type", value); });
    EXPECT_NE(error.find(what), std::string::npos) << value << ": " << error;
  }
  Config config;
  config.set("method", "dpo");
  config.set("loss_type", "kto");
  EXPECT_NE(refusal([&] { config.check_method(); }).find("trl kto"), std::string::npos);
}

// A value next to one that this build refuses: neither the suggestion nor the list has it.
TEST(OtherNames, RefusedValuesAreNotOffered) {
  int checked = 0;
  for (const Option& option : options()) {
    if (option.type != OptionType::choice || option.unsupported.empty()) continue;
    const std::vector<std::string_view> taken = split_words(option.no_ops, '|');
    for (const std::string_view word : split_words(option.accepted, '|')) {
      if (word == option.default_value || std::find(taken.begin(), taken.end(), word) != taken.end())
        continue;
      Config config;
      const std::string error = refusal([&] { config.set(option.name, std::string(word) + "~"); });
      EXPECT_NE(error.find("is not accepted"), std::string::npos) << error;
      for (const char* const end : {",", "?"}) {
        EXPECT_EQ(error.find(" " + std::string(word) + end), std::string::npos)
            << option.name << ": " << error;
      }
      ++checked;
    }
  }
  EXPECT_GT(checked, 10);
}

}  // namespace
}  // namespace trl::config
