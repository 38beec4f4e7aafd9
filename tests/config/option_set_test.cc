// Sets of options as estimate.compare takes them.
#include "config/table/option_set.h"

#include <gtest/gtest.h>

#include "support/error_of.h"

namespace trl::config {
namespace {

constexpr const char* kCompare = "estimate.compare";

std::string canonical(const std::string& text) {
  Config config;
  config.set(kCompare, text);
  return config.get(kCompare);
}

std::vector<std::string> names(const std::string& text) {
  Config config;
  config.set(kCompare, text);
  std::vector<std::string> out;
  for (const OptionSet& set : option_sets(config, kCompare)) out.push_back(set.name);
  return out;
}

TEST(OptionSets, AreReadAsTheyAreWritten) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(names("optim=adamw_8bit"), Names{"optim: adamw_8bit"});
  EXPECT_EQ(names("optim=adamw_8bit  use_peft=true"), Names{"optim: adamw_8bit, use_peft: true"});
  EXPECT_EQ(names("[optim=sgd, use_peft=true max_length=64]"),
            (Names{"optim: sgd", "use_peft: true, max_length: 64"}));
  EXPECT_EQ(names(R"(["optim=sgd", {"use_peft": true, "max_length": 64}])"),
            (Names{"optim: sgd", "use_peft: true, max_length: 64"}));
  EXPECT_EQ(names("{optim: sgd}"), Names{"optim: sgd"});
  // What stands in brackets or quotes is one value.
  EXPECT_EQ(names("lora_target_modules=[q_proj, v_proj] optim_args='a=1, b=2'"),
            Names{"lora_target_modules: [q_proj, v_proj], optim_args: a=1, b=2"});
  EXPECT_EQ(names("null"), Names{});
  EXPECT_EQ(names("[]"), Names{});
}

TEST(OptionSets, CanonicalTextIsReadAgain) {
  for (const char* text : {"optim=sgd max_length=64", "[optim=sgd, {use_peft: true, peft_config: {r: 4}}]"})
    EXPECT_EQ(canonical(canonical(text)), canonical(text));
  Config file;
  file.load_text("estimate.compare:\n- optim=sgd max_length=64\n- {optim: sgd}\n", "file");
  EXPECT_EQ(option_sets(file, kCompare).size(), 2u);
}

TEST(OptionSets, WhatIsNoSetIsRefused) {
  for (const char* text :
       {"optim", "=sgd", "optim=sgd more", "[optim=sgd, {}]", "[1]", "optim=a optim=b", "' '"})
    EXPECT_TRUE(test::error_of([&] { canonical(text); }).second.starts_with("estimate.compare: ")) << text;
}

TEST(OptionSets, StandOverEveryNameOfTheirKeys) {
  Config config;
  config.set("max_seq_length", "64");
  config.set("optim", "sgd");
  const OptionSet set = option_set(parse_option_set("max_length=128 use_peft=true", kCompare));
  const Config changed = with_options(config, set);
  EXPECT_EQ(changed.get("max_length"), "128");
  EXPECT_EQ(changed.get("use_peft"), "true");
  EXPECT_EQ(changed.get("optim"), "sgd");
  EXPECT_EQ(config.get("max_length"), "64");
}

TEST(OptionSets, TakeOptionsOfARunAlone) {
  const auto refused = [](const char* text) {
    return test::error_of([&] { with_options(Config(), option_set(parse_option_set(text, kCompare))); })
        .second;
  };
  EXPECT_NE(refused("runtime.threads=2").find("runtime.threads"), std::string::npos);
  EXPECT_NE(refused("dataset_name=rows.jsonl").find("dataset_name"), std::string::npos);
  EXPECT_NE(refused("estimate.compare=[]").find("estimate.compare"), std::string::npos);
  EXPECT_NE(refused("optm=sgd").find("the nearest is optim"), std::string::npos);
  EXPECT_NE(refused("max_length=-4").find("max_length"), std::string::npos);
  EXPECT_EQ(refused("optim=sgd"), "");
  EXPECT_EQ(refused("num_generations=4"), "");
}

}  // namespace
}  // namespace trl::config
