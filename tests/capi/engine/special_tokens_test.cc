// Which tokens end, begin and pad a text, as config.json and generation_config.json of every saved directory
// have it. tests/golden/special_tokens holds what SFTTrainer 1.16 wrote for the same models; "missing" is an
// entry that was taken out.
#include "engine/run.h"

namespace {

using host::Error;
using host::Json;

#define NEED_TINY(name) NEED_GOLDEN("models/" name "/model.safetensors")

void edit(const std::filesystem::path& file, const Json& changes) {
  Json json = host::parse(host::read_file(file));
  for (const auto& [key, value] : changes.items()) {
    if (value == "missing") {
      json.erase(key);
    } else {
      json[key] = value;
    }
  }
  host::write_file(file, json.dump());
}

std::string edited_model(const Json& test, const std::filesystem::path& directory) {
  std::filesystem::copy(host::golden("models/" + test["model"].get<std::string>()), directory);
  edit(directory / "config.json", test.value("config", Json::object()));
  edit(directory / "tokenizer_config.json", test.value("tokenizer_config", Json::object()));
  const auto generation = directory / "generation_config.json";
  if (test.contains("without_generation_config")) {
    std::filesystem::remove(generation);
  } else {
    edit(generation, test.value("generation_config", Json::object()));
  }
  return directory;
}

host::Trainer run_of(const std::string& model, const std::string& out, const Json& options) {
  host::Settings settings = host::with(
      host::tiny(out), {{"model_name_or_path", model}, {"max_steps", "1"}, {"save_strategy", "steps"}});
  for (const auto& [key, value] : options.items()) settings.emplace_back(key, value.get<std::string>());
  const host::Dataset rows = host::rows("{\"text\": \"one two three\"}\n{\"text\": \"one two three\"}\n");
  return host::trainer(settings, rows.get());
}

void expect_saved(const std::filesystem::path& directory, const Json& want) {
  const Json config = host::parse(host::read_file(directory / "config.json"));
  for (const auto& [key, value] : want["config"].items()) EXPECT_EQ(config.value(key, Json()), value) << key;
  Json generation = host::parse(host::read_file(directory / "generation_config.json"));
  generation.erase("transformers_version");
  EXPECT_EQ(nlohmann::json(generation), nlohmann::json(want["generation_config"]));
}

TEST(SpecialTokens, AreSavedAsTrainerSavesThem) {
  NEED_TINY("llama");
  const Json cases = host::golden_json("special_tokens/cases.json");
  EXPECT_EQ(cases.size(), 47u);
  for (const Json& test : cases) {
    SCOPED_TRACE(test["name"].get<std::string>());
    const host::Scratch scratch;
    const std::filesystem::path out = scratch / "out";
    const auto trainer =
        run_of(edited_model(test, scratch / "model"), out, test.value("options", Json::object()));
    Error error;
    ASSERT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
    ASSERT_EQ(trl_trainer_save(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
    expect_saved(out, test["saved"]);
    expect_saved(out / "checkpoint-1", test["saved"]);
  }
}

// Even if the tokenizer does not say so.
TEST(SpecialTokens, AGenerationEndsAtTheNewOne) {
  NEED_TINY("llama");
  const host::Scratch scratch;
  const auto rows = host::rows("{\"text\": \"one two three\"}\n{\"text\": \"one two three\"}\n");
  const auto trainer = host::trainer(
      host::with(host::tiny(scratch / "out", "models/llama"),
                 {{"eos_token", "<|end_of_text|>"}, {"max_steps", "40"}, {"learning_rate", "0.01"}}),
      rows.get());
  Error error;
  ASSERT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  ASSERT_EQ(trl_trainer_save(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  edit(std::filesystem::path(scratch / "out") / "tokenizer_config.json", {{"eos_token", "<|eot_id|>"}});
  const host::Model model = host::open_model(scratch / "out");
  trl_generator* made = nullptr;
  ASSERT_EQ(trl_generator_create(model.get(), nullptr, &made, error), TRL_OK) << error.message();
  const host::Generator generator(made);
  const char* const prompt = "one two";
  trl_completions* completions = nullptr;
  ASSERT_EQ(trl_generator_generate(generator.get(), &prompt, nullptr, 1,
                                   host::config({{"generate.max_new_tokens", "30"}}).get(), nullptr, nullptr,
                                   &completions, error),
            TRL_OK)
      << error.message();
  const host::Completions held(completions);
  size_t count = 0;
  trl_completions_tokens(completions, 0, &count);
  EXPECT_LT(count, 12u);
}

}  // namespace
