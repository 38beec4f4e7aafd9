// Recipes written as people have written them over the years: what they ask for is there, or the reason is
// said.
#include <gtest/gtest.h>

#include "base/error.h"
#include "config/dataset/data_arguments.h"
#include "config/dataset/datasets.h"
#include "config/model_options.h"
#include "config/training_arguments.h"

namespace trl::config {
namespace {

std::string recipe(const std::string& name) { return TRL_SOURCE_DIR "/tests/config/recipes/" + name; }

Config recipe_config(const std::string& name) {
  Config config;
  config.load_file(recipe(name));
  return config;
}

// The keys that were warned of.
std::string warned(const Config& config) {
  std::string keys;
  for (const std::string& line : config.warnings()) keys += line.substr(0, line.find(':')) + " ";
  return keys;
}

TEST(Recipes, Handbook2023) {
  const Config config = recipe_config("handbook_2023_full.yaml");
  EXPECT_EQ(warned(config),
            "do_eval hub_model_id "
            "push_to_hub ");
  const TrainingArguments a = training_arguments(config);
  EXPECT_EQ(a.eval_strategy, Strategy::epoch);
  EXPECT_EQ(a.lr_scheduler_type, Scheduler::cosine);
  EXPECT_EQ(a.warmup_steps, 0.1);
  EXPECT_EQ(a.per_device_train_batch_size, 16);
  const DatasetArguments rows = dataset_arguments(config);
  EXPECT_EQ(rows.key, "dataset_mixer");
  EXPECT_EQ(rows.mixing, Mixing::shares);
  ASSERT_EQ(rows.entries.size(), 1u);
  EXPECT_EQ(rows.entries[0].path, "data/chats.jsonl");
  EXPECT_EQ(rows.entries[0].share, 1.0);
  EXPECT_EQ(rows.entries[0].split, "train_sft");
  EXPECT_EQ(rows.eval_entries.at(0).split, "test_sft");
  EXPECT_EQ(config.get("dtype"), "bfloat16");
  const DataArguments d = data_arguments(config);
  EXPECT_EQ(d.max_length, 2048);
  EXPECT_EQ(d.dataset_num_proc, 12);
  ASSERT_TRUE(d.chat_template.has_value());
  EXPECT_TRUE(
      d.chat_template->starts_with("{% for message in messages %}\n{% if message['role'] == 'user' %}\n"));
}

TEST(Recipes, Handbook2023Qlora) {
  const Config config = recipe_config("handbook_2023_qlora.yaml");
  EXPECT_EQ(quantization(config).form, WeightForm::nf4);
  EXPECT_TRUE(config.get_bool("use_peft"));
  EXPECT_NO_THROW(training_arguments(config));
}

TEST(Recipes, Handbook2025) {
  const Config config = recipe_config("handbook_2025.yaml");
  EXPECT_EQ(warned(config), "report_to ");
  const DataArguments d = data_arguments(config);
  EXPECT_TRUE(d.assistant_only_loss);
  EXPECT_EQ(d.eos_token, "<|im_end|>");
  const DatasetArguments rows = dataset_arguments(config);
  EXPECT_EQ(rows.mixing, Mixing::weights);
  ASSERT_EQ(rows.entries.size(), 1u);
  EXPECT_EQ(rows.entries[0].path, "data/chats.jsonl");
  EXPECT_EQ(rows.entries[0].columns, std::vector<std::string>{"messages"});
  EXPECT_EQ(d.chat_template->substr(0, 30), "{%- for message in messages -%");
  const TrainingArguments a = training_arguments(config);
  EXPECT_EQ(a.gradient_accumulation_steps, 4);
  EXPECT_EQ(a.warmup_steps, 0.03);
  EXPECT_TRUE(config.get_bool("use_liger_kernel"));
}

TEST(Recipes, OpenR1) {
  const Config config = recipe_config("open_r1.yaml");
  EXPECT_EQ(warned(config),
            "hub_model_id hub_model_revision overwrite_hub_revision "
            "push_to_hub report_to wandb_project ");
  const TrainingArguments a = training_arguments(config);
  EXPECT_EQ(a.learning_rate, 1e-5);
  EXPECT_EQ(a.gradient_accumulation_steps, 8);
  EXPECT_EQ(dataset_arguments(config).entries.at(0).config, "all");
  EXPECT_EQ(data_arguments(config).max_length, 16384);
  EXPECT_TRUE(config.get_bool("use_liger_kernel"));
  const TrainingArguments min_lr = training_arguments(recipe_config("open_r1_min_lr.yaml"));
  EXPECT_EQ(min_lr.lr_scheduler_type, Scheduler::cosine_with_min_lr);
  EXPECT_EQ(min_lr.lr_scheduler_kwargs.min_lr_rate, 0.1);
}

TEST(Recipes, TrlDocumentation) {
  const Config config = recipe_config("trl_docs.yaml");
  EXPECT_EQ(warned(config), "");
  const DatasetArguments rows = dataset_arguments(config);
  ASSERT_EQ(rows.entries.size(), 1u);
  EXPECT_EQ(rows.entries[0].path, "json");
  EXPECT_EQ(rows.entries[0].data_files.at("train"), std::vector<std::string>{"data/rows.jsonl"});
  const std::vector<std::pair<std::string, std::string>> env = {{"TOKENIZERS_PARALLELISM", "false"},
                                                                {"OMP_NUM_THREADS", "2"}};
  EXPECT_EQ(config.get_pairs("env"), env);
  EXPECT_EQ(training_arguments(config).per_device_train_batch_size, 2);
}

TEST(Recipes, Json2024) {
  const Config config = recipe_config("trl_2024.json");
  EXPECT_EQ(warned(config),
            "dataset_batch_size dataset_kwargs ddp_timeout trust_remote_code include_tokens_per_second "
            "run_name ");
  const TrainingArguments a = training_arguments(config);
  EXPECT_EQ(a.eval_strategy, Strategy::steps);
  EXPECT_EQ(a.eval_steps, 50.0);
  EXPECT_EQ(data_arguments(config).sampling, Sampling::random);
}

}  // namespace
}  // namespace trl::config
