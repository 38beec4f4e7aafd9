// chat_template_path as a model, beside SFTTrainer 1.16 on the same models and rows
// (tests/golden/template_model).
#include "engine/run.h"

namespace {

using host::Error;
using host::Json;

#define NEED_TEMPLATE_MODELS()                    \
  NEED_GOLDEN("models/llama/model.safetensors");  \
  NEED_GOLDEN("models/llama3/model.safetensors"); \
  NEED_GOLDEN("models/qwen2/chat_template.jinja")

std::string chats() {
  const char* const two[] = {
      R"({"messages": [{"role": "user", "content": "one two three"}, {"role": "assistant", "content": "four five"}]})",
      R"({"messages": [{"role": "user", "content": "six"}, {"role": "assistant", "content": "seven eight nine ten"}]})"};
  std::string lines;
  for (int i = 0; i < 8; ++i) lines += std::string(two[i % 2]) + "\n";
  return lines;
}

host::Settings template_settings(const Json& test, const std::string& out) {
  const auto model = [](const Json& name) { return host::golden("models/" + name.get<std::string>()); };
  host::Settings settings = host::with(host::tiny(out), {{"model_name_or_path", model(test["model"])},
                                                         {"chat_template_path", model(test["source"])},
                                                         {"max_steps", "3"},
                                                         {"save_strategy", "steps"},
                                                         {"save_steps", "2"}});
  for (const auto& [key, value] : test["options"].items())
    settings.emplace_back(key, value.get<std::string>());
  return settings;
}

std::vector<double> losses_of(trl_trainer* trainer) {
  std::vector<double> losses;
  const Json state = host::state(trainer);
  for (const Json& record : state["log_history"]) {
    if (record.contains("loss")) losses.push_back(record["loss"]);
  }
  return losses;
}

// The rows of new tokens, before training.
void expect_new_rows(const std::filesystem::path& directory, const Json& want, double limit) {
  const auto tensors = host::read_safetensors(directory / "model.safetensors");
  for (const auto& [name, rows] : want.items()) {
    const host::Tensor& tensor = tensors.at(name);
    const auto width = static_cast<size_t>(tensor.shape[1]);
    for (const auto& [row, values] : rows.items()) {
      for (size_t i = 0; i < width; ++i) {
        const double got = tensor.values[std::stoul(row) * width + i];
        EXPECT_NEAR(got, values[i].get<double>(), limit) << name << " row " << row << " column " << i;
      }
    }
  }
}

void expect_files(const std::filesystem::path& directory, const Json& want) {
  const auto read = [&](const char* name) { return host::parse(host::read_file(directory / name)); };
  const Json config = read("config.json"), tokenizer = read("tokenizer_config.json");
  for (const auto& [key, value] : want["config"].items()) EXPECT_EQ(config.value(key, Json()), value) << key;
  Json generation = read("generation_config.json");
  generation.erase("transformers_version");
  EXPECT_EQ(nlohmann::json(generation), nlohmann::json(want["generation_config"]));
  EXPECT_EQ(tokenizer["eos_token"], want["eos_token"]);
  EXPECT_EQ(tokenizer["pad_token"], want["pad_token"]);
  EXPECT_EQ(
      host::read_file(directory / "chat_template.jinja"),
      host::read_file(host::golden("models/" + want["source"].get<std::string>()) + "/chat_template.jinja"));
  Json added = Json::array(), fillers = Json::array();
  const Json file = read("tokenizer.json");
  for (const Json& token : file["added_tokens"]) {
    if (token["content"].get<std::string>().starts_with("<extra_id_")) {
      fillers.push_back(token["id"]);
    } else {
      added.push_back({token["id"], token["content"], token["special"], token["normalized"]});
    }
  }
  EXPECT_EQ(added, want["added_tokens"]);
  EXPECT_EQ((Json{fillers.front(), fillers.back()}), want["fillers"]);
}

std::vector<int32_t> first_row_ids(const Json& test) {
  const host::Settings settings = template_settings(test, "out");
  const auto options =
      host::config({{"chat_template_path", host::golden("models/" + test["source"].get<std::string>())}});
  trl_tokenizer* tokenizer = nullptr;
  Error error;
  EXPECT_EQ(trl_tokenizer_open(nullptr, host::golden("models/" + test["model"].get<std::string>()).c_str(),
                               options.get(), &tokenizer, error),
            TRL_OK)
      << error.message();
  const Json row = host::parse(chats().substr(0, chats().find('\n')));
  char text[1024];
  int32_t ids[1024];
  size_t bytes = 0, count = 0;
  const std::string messages = row["messages"].dump();
  EXPECT_EQ(trl_tokenizer_apply_chat_template(tokenizer, messages.data(), messages.size(), text, sizeof text,
                                              &bytes, error),
            TRL_OK)
      << error.message();
  EXPECT_EQ(trl_tokenizer_encode(tokenizer, text, bytes, 0, 0, ids, 1024, &count, error), TRL_OK);
  trl_tokenizer_destroy(tokenizer);
  return {ids, ids + count};
}

TEST(TemplateModel, TokensRowsAndLossesAreThoseOfTrl) {
  NEED_TEMPLATE_MODELS();
  const Json cases = host::golden_json("template_model/cases.json");
  EXPECT_EQ(cases.size(), 7u);
  const auto rows = host::rows(chats());
  for (const Json& test : cases) {
    SCOPED_TRACE(test["name"].get<std::string>());
    const host::Scratch scratch;
    const bool bf16 = test["name"] == "bf16";
    EXPECT_EQ(first_row_ids(test), test["ids"].get<std::vector<int32_t>>());
    const auto trainer = host::trainer(template_settings(test, scratch / "out"), rows.get());
    Error error;
    const std::string untrained = scratch / "untrained";
    ASSERT_EQ(trl_trainer_save(trainer.get(), untrained.c_str(), nullptr, error), TRL_OK) << error.message();
    expect_new_rows(untrained, test["new_rows"], 1e-8);
    ASSERT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
    const std::vector<double> losses = losses_of(trainer.get());
    ASSERT_EQ(losses.size(), 3u);
    for (size_t i = 0; i < losses.size(); ++i) {
      EXPECT_TRUE(host::close(losses[i], test["losses"][i], trl::test::Limit{1e-6, bf16 ? 2e-3 : 1e-4}))
          << losses[i] << " for " << test["losses"][i];
    }
    ASSERT_EQ(trl_trainer_save(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
    expect_files(scratch / "out", test);
    expect_files(scratch / "out/checkpoint-2", test);
  }
}

TEST(TemplateModel, ARunGoesOnFromItsCheckpoint) {
  NEED_TEMPLATE_MODELS();
  const Json cases = host::golden_json("template_model/cases.json");
  const Json& test = cases[2];
  const auto rows = host::rows(chats());
  const host::Scratch scratch;
  const host::Settings settings = template_settings(test, scratch / "out");
  const auto whole = host::trainer(settings, rows.get());
  ASSERT_EQ(trl_trainer_train(whole.get(), nullptr, nullptr, nullptr), TRL_OK);
  const auto resumed = host::trainer(
      host::with(settings, {{"resume_from_checkpoint", scratch / "out/checkpoint-2"}}), rows.get());
  Error error;
  ASSERT_EQ(trl_trainer_train(resumed.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  EXPECT_EQ(losses_of(resumed.get()), losses_of(whole.get()));
  // The saved model with the same option: its rows and tokens are there already.
  const host::Settings again = host::with(
      settings, {{"model_name_or_path", scratch / "out/checkpoint-3"}, {"output_dir", scratch / "again"}});
  const auto next = host::trainer(again, rows.get());
  ASSERT_EQ(trl_trainer_save(next.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  expect_files(scratch / "again", test);
  EXPECT_EQ(
      host::read_safetensors(scratch / "again/model.safetensors").at("lm_head.weight").values,
      host::read_safetensors(scratch / "out/checkpoint-3/model.safetensors").at("lm_head.weight").values);
}

TEST(TemplateModel, WhatCannotBeTakenOverIsRefused) {
  NEED_TEMPLATE_MODELS();
  const host::Scratch scratch;
  const auto rows = host::rows(chats());
  const auto refusal = [&](const std::string& path) {
    trl_trainer* made = nullptr;
    Error error;
    EXPECT_NE(trl_trainer_create(
                  nullptr,
                  host::config(host::with(host::tiny(scratch / "out"), {{"chat_template_path", path}})).get(),
                  rows.get(), nullptr, &made, error),
              TRL_OK);
    return std::string(error.message());
  };
  const std::filesystem::path plain = scratch / "plain";
  std::filesystem::copy(host::golden("models/llama"), plain);
  std::filesystem::remove(plain / "chat_template.jinja");
  EXPECT_EQ(refusal(plain), "chat_template_path: " + plain.string() +
                                ": its tokenizer has no chat template that could be taken over");
  EXPECT_EQ(
      refusal("/nowhere/model"),
      "chat_template_path: /nowhere/model is not there; give a .jinja or .j2 file, a model directory or a "
      "GGUF file");
  trl_model* model = nullptr;
  Error error;
  const auto options = host::config({{"chat_template_path", host::golden("models/qwen2")}});
  EXPECT_EQ(trl_model_open(nullptr, host::golden("models/llama").c_str(), options.get(), &model, error),
            TRL_E_INVALID_CONFIG);
  EXPECT_NE(std::string(error.message()).find("a .jinja or .j2 file is accepted here"), std::string::npos)
      << error.message();
}

}  // namespace
