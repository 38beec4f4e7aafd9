// Calls of the C ABI whose errors are exceptions.
#pragma once
#include <trl.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace trl::bench {

// Throws what the library says.
inline void check(trl_status status, trl_error* error) {
  if (status >= 0) return;
  const std::string message = trl_error_message(error);
  trl_error_destroy(error);
  throw std::runtime_error(message);
}

}  // namespace trl::bench

#define TRL_CHECK(call)               \
  do {                                \
    trl_error* error = nullptr;       \
    const trl_status status = call;   \
    trl::bench::check(status, error); \
  } while (false)

namespace trl::bench {

// options: texts, or what else a JSON value is, by key.
inline trl_config* config_of(const nlohmann::ordered_json& options) {
  trl_config* config = nullptr;
  TRL_CHECK(trl_config_create(&config, &error));
  for (const auto& [key, value] : options.items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    TRL_CHECK(trl_config_set(config, key.c_str(), text.c_str(), &error));
  }
  return config;
}

// Opens a trainer of these JSON lines, which it evaluates on, too, if it is to.
inline trl_trainer* open_trainer_on(const nlohmann::ordered_json& options, const std::string& lines,
                                    bool evaluates) {
  trl_config* const config = config_of(options);
  trl_runtime* runtime = nullptr;
  trl_dataset* dataset = nullptr;
  trl_trainer* trainer = nullptr;
  TRL_CHECK(trl_runtime_create(config, &runtime, &error));
  TRL_CHECK(trl_dataset_from_buffer(runtime, "jsonl", lines.data(), lines.size(), nullptr, &dataset, &error));
  TRL_CHECK(trl_trainer_create(runtime, config, dataset, evaluates ? dataset : nullptr, &trainer, &error));
  trl_dataset_destroy(dataset);
  trl_runtime_destroy(runtime);
  trl_config_destroy(config);
  return trainer;
}

// The rows are `rows` texts of `words` words each.
inline trl_trainer* open_trainer(const nlohmann::ordered_json& options, int rows, int words, bool evaluates) {
  std::string text;
  for (int row = 0; row < rows; ++row) {
    text += "{\"text\": \"";
    for (int i = 0; i < words; ++i) text += "tide ";
    text += "\"}\n";
  }
  return open_trainer_on(options, text, evaluates);
}

// A generator of the weights of a trainer.
inline trl_generator* open_generator(trl_trainer* trainer) {
  trl_model* model = nullptr;
  trl_generator* generator = nullptr;
  TRL_CHECK(trl_model_from_trainer(trainer, &model, &error));
  TRL_CHECK(trl_generator_create(model, nullptr, &generator, &error));
  trl_model_destroy(model);
  return generator;
}

}  // namespace trl::bench
