// A model of the golden files, and what the library writes with it.
#pragma once
#include <string>
#include <vector>

#include "running_server.h"

namespace trl::serve::test {

inline const char* const kModel = TRL_SOURCE_DIR "/tests/golden/models/qwen2";

class OpenModel {
 public:
  explicit OpenModel(Options options = {}, const std::string& path = kModel) {
    trl_config* config = nullptr;
    trl_error* error = nullptr;
    EXPECT_EQ(trl_config_create(&config, nullptr), TRL_OK);
    for (const auto& [key, value] : options)
      EXPECT_EQ(trl_config_set(config, key, value, nullptr), TRL_OK) << key;
    EXPECT_EQ(trl_model_open(nullptr, path.c_str(), config, &model_, &error), TRL_OK)
        << trl_error_message(error);
    trl_config_destroy(config);
  }
  ~OpenModel() { trl_model_destroy(model_); }
  OpenModel(const OpenModel&) = delete;
  OpenModel& operator=(const OpenModel&) = delete;
  trl_model* get() const { return model_; }

  // The library's own completions of a prompt, as trl_completions_json gives them.
  std::vector<Json> complete(const char* prompt, Options options) {
    trl_config* config = nullptr;
    trl_generator* generator = nullptr;
    trl_completions* completions = nullptr;
    trl_error* error = nullptr;
    EXPECT_EQ(trl_config_create(&config, nullptr), TRL_OK);
    for (const auto& [key, value] : options)
      EXPECT_EQ(trl_config_set(config, key, value, &error), TRL_OK) << trl_error_message(error);
    EXPECT_EQ(trl_generator_create(model_, nullptr, &generator, nullptr), TRL_OK);
    EXPECT_EQ(trl_generator_generate(generator, &prompt, nullptr, 1, config, nullptr, nullptr, &completions,
                                     &error),
              TRL_OK)
        << trl_error_message(error);
    std::vector<Json> all;
    for (size_t i = 0; trl_completions_text(completions, i, nullptr) != nullptr; ++i)
      all.push_back(Json::parse(trl_completions_json(completions, i, nullptr)));
    trl_completions_destroy(completions);
    trl_generator_destroy(generator);
    trl_config_destroy(config);
    return all;
  }

 private:
  trl_model* model_ = nullptr;
};

}  // namespace trl::serve::test
