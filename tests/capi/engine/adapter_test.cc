// Adapters through the C API: trained, saved alone and merged, added to a model, used, merged and removed.
#include "engine/run.h"

namespace {

using host::Error;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

using Ids = std::vector<int32_t>;

// A run that learns enough for its greedy text to be another one.
struct AdapterRun {
  AdapterRun() {
    EXPECT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, nullptr), TRL_OK);
    Error error;
    EXPECT_EQ(trl_trainer_save(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
    EXPECT_EQ(trl_trainer_save(trainer.get(), (scratch / "merged").c_str(),
                               host::config({{"save.kind", "merged"}}).get(), error),
              TRL_OK)
        << error.message();
  }
  host::Scratch scratch;
  host::Dataset rows = host::open_rows(host::golden("data/datasets/train_lm.jsonl"));
  host::Trainer trainer = host::trainer(
      host::with(host::tiny(scratch / "out"),
                 {{"use_peft", "true"}, {"lora_r", "4"}, {"lora_dropout", "0"}, {"learning_rate", "0.05"}}),
      rows.get());
};

host::Model open_model(const std::string& path, const host::Settings& options = {}) {
  trl_model* made = nullptr;
  Error error;
  EXPECT_EQ(trl_model_open(nullptr, path.c_str(), host::config(options).get(), &made, error), TRL_OK)
      << error.message();
  return host::Model(made);
}

Ids greedy(trl_model* model) {
  trl_generator* made = nullptr;
  EXPECT_EQ(trl_generator_create(model, nullptr, &made, nullptr), TRL_OK);
  const host::Generator generator(made);
  const char* prompt = "The quick";
  trl_completions* completions = nullptr;
  EXPECT_EQ(trl_generator_generate(generator.get(), &prompt, nullptr, 1,
                                   host::config({{"generate.max_new_tokens", "12"}}).get(), nullptr, nullptr,
                                   &completions, nullptr),
            TRL_OK);
  const host::Completions held(completions);
  size_t count = 0;
  const int32_t* ids = trl_completions_tokens(held.get(), 0, &count);
  return {ids, ids + count};
}

TEST(Adapter, IsAddedUsedMergedAndRemoved) {
  NEED_MODEL();
  const AdapterRun run;
  const std::string base = host::golden("models/qwen2"), saved = run.scratch / "out";
  EXPECT_FALSE(std::filesystem::exists(run.scratch / "out/model.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(run.scratch / "merged/model.safetensors"));
  const Ids alone = greedy(open_model(base).get()), merged = greedy(open_model(run.scratch / "merged").get());
  ASSERT_NE(alone, merged);
  EXPECT_EQ(greedy(open_model(base, {{"adapter_name_or_path", saved}}).get()), merged);

  const host::Model model = open_model(base);
  Error error;
  const auto use = [&](const char* name) { return trl_model_use_adapter(model.get(), name, error); };
  ASSERT_EQ(trl_model_add_adapter(model.get(), "mine", saved.c_str(), error), TRL_OK) << error.message();
  EXPECT_EQ(greedy(model.get()), alone);
  EXPECT_EQ(use("mine"), TRL_OK);
  EXPECT_EQ(greedy(model.get()), merged);
  EXPECT_EQ(use(nullptr), TRL_OK);
  EXPECT_EQ(greedy(model.get()), alone);
  ASSERT_EQ(trl_model_merge_adapter(model.get(), "mine", error), TRL_OK) << error.message();
  EXPECT_EQ(greedy(model.get()), merged);
  EXPECT_EQ(use(nullptr), TRL_E_BUSY);
  EXPECT_EQ(trl_model_merge_adapter(model.get(), nullptr, error), TRL_OK);
  EXPECT_EQ(use("other"), TRL_E_NOT_FOUND);
  EXPECT_EQ(std::string(error.message()), "the model has no adapter \"other\"; it has mine");
  EXPECT_EQ(trl_model_remove_adapter(model.get(), "mine", error), TRL_OK);
  EXPECT_EQ(greedy(model.get()), alone);
  EXPECT_EQ(use("mine"), TRL_E_NOT_FOUND);
}

TEST(Adapter, IsSavedFromAModel) {
  NEED_MODEL();
  const AdapterRun run;
  const std::string base = host::golden("models/qwen2"), saved = run.scratch / "out";
  const host::Model model = open_model(base);
  Error error;
  const auto save = [&](const char* name, const char* kind) {
    return trl_model_save(model.get(), (run.scratch / name).c_str(),
                          host::config({{"save.kind", kind}}).get(), error);
  };
  EXPECT_EQ(save("none", "adapter"), TRL_E_INVALID_CONFIG);
  EXPECT_EQ(save("none", "checkpoint"), TRL_E_INVALID_CONFIG);
  EXPECT_FALSE(std::filesystem::exists(run.scratch / "none"));
  ASSERT_EQ(trl_model_add_adapter(model.get(), "mine", saved.c_str(), error), TRL_OK) << error.message();
  ASSERT_EQ(trl_model_use_adapter(model.get(), "mine", error), TRL_OK);
  for (const char* kind : {"adapter", "merged", "model"})
    ASSERT_EQ(save(kind, kind), TRL_OK) << error.message();
  const auto bytes = [&](const std::string& name) { return host::read_file(run.scratch / name); };
  EXPECT_EQ(bytes("adapter/adapter_model.safetensors"), bytes("out/adapter_model.safetensors"));
  EXPECT_EQ(bytes("adapter/adapter_config.json"), bytes("out/adapter_config.json"));
  EXPECT_EQ(bytes("merged/model.safetensors"), bytes("merged/model.safetensors"));
  const Ids alone = greedy(open_model(base).get()), merged = greedy(model.get());
  EXPECT_EQ(greedy(open_model(run.scratch / "model").get()), alone);
  EXPECT_EQ(greedy(open_model(run.scratch / "merged").get()), merged);
  EXPECT_TRUE(std::filesystem::exists(run.scratch / "adapter/tokenizer.json"));
}

// It is trained on: the run begins with what it holds.
TEST(Adapter, GoesOnFromASavedOne) {
  NEED_MODEL();
  const AdapterRun run;
  const host::Scratch scratch;
  const auto settings = host::with(
      host::tiny(scratch / "out"),
      {{"use_peft", "true"}, {"learning_rate", "0"}, {"adapter_name_or_path", run.scratch / "out"}});
  const auto rows = host::open_rows(host::golden("data/datasets/train_lm.jsonl"));
  const host::Trainer trainer = host::trainer(settings, rows.get());
  ASSERT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, nullptr), TRL_OK);
  ASSERT_EQ(trl_trainer_save(trainer.get(), nullptr, nullptr, nullptr), TRL_OK);
  EXPECT_EQ(host::read_file(scratch / "out/adapter_model.safetensors"),
            host::read_file(run.scratch / "out/adapter_model.safetensors"));
  // The same of the adapter's directory as the model, which opens the model that it was trained on.
  const auto as_model =
      host::with(host::tiny(scratch / "again", "models/qwen2"),
                 {{"use_peft", "true"}, {"learning_rate", "0"}, {"model_name_or_path", run.scratch / "out"}});
  const host::Trainer again = host::trainer(as_model, rows.get());
  ASSERT_EQ(trl_trainer_train(again.get(), nullptr, nullptr, nullptr), TRL_OK);
  ASSERT_EQ(trl_trainer_save(again.get(), nullptr, nullptr, nullptr), TRL_OK);
  EXPECT_EQ(host::read_file(scratch / "again/adapter_model.safetensors"),
            host::read_file(run.scratch / "out/adapter_model.safetensors"));
  trl_trainer* refused = nullptr;
  Error error;
  EXPECT_EQ(trl_trainer_create(nullptr, host::config(host::with(settings, {{"lora_r", "8"}})).get(),
                               rows.get(), nullptr, &refused, error),
            TRL_E_INVALID_CONFIG);
  EXPECT_EQ(error.key(), std::string("lora_r"));
}

TEST(Adapter, WhatDoesNotFitIsRefused) {
  NEED_MODEL();
  const auto rows = host::open_rows(host::golden("data/datasets/train_lm.jsonl"));
  const host::Scratch scratch;
  const std::vector<std::pair<host::Settings, std::string>> cases = {
      {{{"lora_target_modules", "[q_prj]"}}, "target_modules"},
      {{{"lora_target_modules", "[lm_head]"}}, "target_modules"},
      {{{"lora_r", "65"}}, "r"},
      {{{"peft_config", "{layers_to_transform: [7]}"}}, "layers_to_transform"},
      {{{"peft_config", "{peft_type: IA3}"}}, "peft_config"},
      {{{"save_format", "gguf"}}, "save_format"},
      {{{"chat_template_path", host::golden("models/qwen3")}}, "chat_template_path"},
  };
  for (const auto& [more, key] : cases) {
    trl_trainer* made = nullptr;
    Error error;
    const auto settings = host::with(host::with(host::tiny(scratch / "out"), {{"use_peft", "true"}}), more);
    EXPECT_EQ(trl_trainer_create(nullptr, host::config(settings).get(), rows.get(), nullptr, &made, error),
              TRL_E_INVALID_CONFIG)
        << key;
    EXPECT_EQ(error.key(), key) << error.message();
    EXPECT_EQ(made, nullptr);
  }
  const host::Model model = open_model(host::golden("models/qwen2"));
  Error error;
  EXPECT_EQ(trl_model_add_adapter(model.get(), "../x", "nowhere", error), TRL_E_NOT_FOUND);
  const AdapterRun run;
  const std::string saved = run.scratch / "out";
  EXPECT_EQ(trl_model_add_adapter(model.get(), "../x", saved.c_str(), error), TRL_E_INVALID_ARGUMENT);
  const host::Model other = open_model(host::golden("models/qwen3"));
  EXPECT_EQ(trl_model_add_adapter(other.get(), "mine", saved.c_str(), error), TRL_E_FORMAT);
  EXPECT_EQ(trl_model_use_adapter(other.get(), "mine", error), TRL_E_NOT_FOUND);
  const std::string config = scratch / "config";
  std::filesystem::create_directories(config);
  host::write_file(config + "/adapter_config.json", R"({"target_modules": ["query"]})");
  EXPECT_EQ(trl_model_add_adapter(model.get(), "mine", config.c_str(), error), TRL_E_FORMAT);
  EXPECT_TRUE(
      std::string(error.message()).starts_with(config + "/adapter_config.json: target_modules: query"))
      << error.message();
}

}  // namespace
