// README.md of a saved adapter: the metadata that PEFT and TRL write.
#include "adapter/config_file.h"

#include <gtest/gtest.h>

namespace trl::adapter {
namespace {

constexpr std::string_view kTags[] = {"sft", "trl"};

// What SFTTrainer 1.16 with PEFT 0.21.2 writes for the same run.
TEST(ModelCard, HasTheMetadataOfPeftAndTrl) {
  config::LoraConfig config;
  config.base_model_name_or_path = "/models/llama";
  config.task_type = "CAUSAL_LM";
  const std::string card = model_card(config, kTags);
  EXPECT_TRUE(card.starts_with(R"(---
base_model: /models/llama
library_name: peft
pipeline_tag: text-generation
tags:
- base_model:adapter:/models/llama
- lora
- sft
- transformers
- trl
---
)")) << card;
  EXPECT_NE(card.find("AutoPeftModelForCausalLM"), std::string::npos);
}

TEST(ModelCard, QuotesWhatYamlWouldReadOtherwise) {
  config::LoraConfig config;
  config.base_model_name_or_path = "a # \"b\": c";
  config.task_type = "SEQ_CLS";
  const std::string card = model_card(config, {});
  EXPECT_TRUE(
      card.starts_with("---\nbase_model: \"a # \\\"b\\\": c\"\nlibrary_name: peft\ntags:\n"
                       "- \"base_model:adapter:a # \\\"b\\\": c\"\n- lora\n- transformers\n---\n"))
      << card;
  EXPECT_NE(card.find("AutoPeftModelForSequenceClassification"), std::string::npos);
}

// SFTTrainer 1.16 writes these lines for the same run, and a licence that it does not know.
TEST(ModelCard, OfAWholeModelHasTheMetadataOfTrl) {
  EXPECT_TRUE(model_card(WholeModel{"out", "Qwen/Qwen2.5-0.5B"}, kTags).starts_with(R"(---
base_model: Qwen/Qwen2.5-0.5B
library_name: transformers
model_name: out
tags:
- generated_from_trainer
- sft
- trl
---

# out
)"));
  const std::string local = model_card(WholeModel{"out", "/models/llama", true}, kTags);
  EXPECT_TRUE(local.starts_with("---\nlibrary_name: transformers\n")) << local;
  EXPECT_NE(local.find("`/models/llama`"), std::string::npos);
  EXPECT_NE(local.find("text-classification"), std::string::npos);
  EXPECT_NE(model_card(WholeModel{"out", "", false, true}, kTags).find("- gguf\n"), std::string::npos);
}

}  // namespace
}  // namespace trl::adapter
