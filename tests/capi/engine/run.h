// A training run through the C API, on the recorded tiny models.
#pragma once
#include <functional>
#include <map>

#include "host.h"

namespace host {

inline Settings tiny(const std::string& output_dir, const std::string& model = "models/qwen2") {
  return {{"model_name_or_path", golden(model)},
          {"output_dir", output_dir},
          {"bf16", "false"},
          {"gradient_checkpointing", "false"},
          {"train_sampling_strategy", "sequential"},
          {"per_device_train_batch_size", "4"},
          {"logging_steps", "1"},
          {"learning_rate", "0.002"},
          {"max_steps", "8"}};
}

inline Settings with(Settings settings, const Settings& more) {
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

inline Trainer trainer(const Settings& settings, trl_dataset* train, trl_dataset* eval = nullptr,
                       trl_runtime* runtime = nullptr) {
  trl_trainer* made = nullptr;
  Error error;
  EXPECT_EQ(trl_trainer_create(runtime, config(settings).get(), train, eval, &made, error), TRL_OK)
      << error.message();
  return Trainer(made);
}

// Creates a trainer of the tiny model and destroys it again.
inline trl_status create_trainer(trl_runtime* runtime, const Scratch& scratch, trl_error** error) {
  const Dataset rows = open_rows(golden("data/datasets/train_lm.jsonl"));
  trl_trainer* made = nullptr;
  const trl_status status =
      trl_trainer_create(runtime, config(tiny(scratch / "out")).get(), rows.get(), nullptr, &made, error);
  EXPECT_EQ(made != nullptr, status == TRL_OK);
  trl_trainer_destroy(made);
  return status;
}

// Copies a recorded model, so that the copy can be changed.
inline void copy_model(const std::string& model, const std::filesystem::path& to) {
  for (const auto& entry : std::filesystem::directory_iterator(golden(model)))
    write_file(to / entry.path().filename(), read_file(entry.path()));
}

inline void edit_config(const std::filesystem::path& model, const std::function<void(Json&)>& edit) {
  Json config = host::parse(read_file(model / "config.json"));
  edit(config);
  write_file(model / "config.json", config.dump());
}

inline Model open_model(const std::string& path, const Settings& options = {}) {
  trl_model* made = nullptr;
  Error error;
  EXPECT_EQ(trl_model_open(nullptr, path.c_str(), config(options).get(), &made, error), TRL_OK)
      << error.message();
  return Model(made);
}

inline Model model_of(trl_trainer* trainer) {
  trl_model* made = nullptr;
  Error error;
  EXPECT_EQ(trl_model_from_trainer(trainer, &made, error), TRL_OK) << error.message();
  return Model(made);
}

inline Generator generator_of(trl_model* model) {
  trl_generator* made = nullptr;
  Error error;
  EXPECT_EQ(trl_generator_create(model, nullptr, &made, error), TRL_OK) << error.message();
  return Generator(made);
}

inline Generator generator_of(trl_trainer* trainer) { return generator_of(model_of(trainer).get()); }

inline Json state(trl_trainer* trainer) {
  const char* json = nullptr;
  Error error;
  EXPECT_EQ(trl_trainer_describe(trainer, &json, error), TRL_OK) << error.message();
  return json != nullptr ? host::parse(json) : Json();
}

struct Tensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
  bool operator==(const Tensor&) const = default;
};

// The tensors of a safetensors file as float32, by name.
std::map<std::string, Tensor> read_safetensors(const std::filesystem::path& path);

// The bytes of each file below a directory, by its path from there.
inline std::map<std::string, std::string> files_of(const std::filesystem::path& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
    if (entry.is_regular_file())
      files[std::filesystem::relative(entry.path(), directory)] = read_file(entry.path());
  return files;
}

// The ids of a completion, or nothing after an error. adapter: nullable.
inline std::vector<int32_t> greedy(trl_generator* generator, const char* adapter) {
  Settings settings = {{"generate.max_new_tokens", "12"}};
  if (adapter != nullptr) settings.emplace_back("generate.adapter", adapter);
  const char* prompt = "The quick";
  trl_completions* completions = nullptr;
  const trl_status status = trl_generator_generate(generator, &prompt, nullptr, 1, config(settings).get(),
                                                   nullptr, nullptr, &completions, nullptr);
  if (status != TRL_OK) return {};
  const Completions held(completions);
  size_t count = 0;
  const int32_t* ids = trl_completions_tokens(held.get(), 0, &count);
  return {ids, ids + count};
}

inline std::vector<int32_t> greedy(trl_model* model) {
  trl_generator* made = nullptr;
  EXPECT_EQ(trl_generator_create(model, nullptr, &made, nullptr), TRL_OK);
  const Generator generator(made);
  const std::vector<int32_t> ids = greedy(generator.get(), nullptr);
  EXPECT_FALSE(ids.empty());
  return ids;
}

// text: nullable; the lines that people read.
inline Json plan(const Settings& settings, const trl_dataset* rows = nullptr, std::string* text = nullptr) {
  const Runtime context = runtime();
  const char* json = nullptr;
  const char* lines = nullptr;
  Error error;
  EXPECT_EQ(trl_trainer_plan(context.get(), config(settings).get(), rows, &json, &lines, error), TRL_OK)
      << error.message();
  if (text != nullptr && lines != nullptr) *text = lines;
  return json != nullptr ? parse(json) : Json();
}

}  // namespace host
