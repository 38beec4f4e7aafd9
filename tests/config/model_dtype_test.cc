#include "config/model_dtype.h"

#include <gtest/gtest.h>

#include "config/training_arguments.h"
#include "support/error_of.h"

namespace trl::config {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

Config dtype_config(const Settings& settings) {
  Config config;
  for (const auto& [key, value] : settings) config.set(key, value);
  return config;
}

std::string dtype_refusal(const Settings& settings) {
  const auto [status, message] = test::error_of([&] { training_arguments(dtype_config(settings)); });
  EXPECT_EQ(status, Status::invalid_config);
  return message;
}

TEST(ModelDtype, AnEntryOfModelInitKwargsIsTheKey) {
  EXPECT_EQ(model_dtype(Config()), "float32");
  EXPECT_EQ(model_dtype(dtype_config({{"dtype", "bfloat16"}})), "bfloat16");
  for (const char* value : {"auto", "float32", "bfloat16"}) {
    for (const char* key : {"dtype", "torch_dtype"}) {
      const std::string entry = fmt::format("{{{}: {}}}", key, value);
      EXPECT_EQ(model_dtype(dtype_config({{"model_init_kwargs", entry}})), value);
      EXPECT_EQ(model_dtype(dtype_config({{"dtype", value}, {"model_init_kwargs", entry}})), value);
    }
  }
  EXPECT_EQ(model_dtype(dtype_config({{"model_init_kwargs", "{dtype: null}"}})), "auto");
}

TEST(ModelDtype, RefusesWhatTheKeyRefuses) {
  EXPECT_EQ(dtype_refusal({{"model_init_kwargs", "{dtype: float16}"}}),
            "model_init_kwargs: dtype: 'float16' is refused: float16 weights are not in this build: give "
            "float32, bfloat16 or auto");
  EXPECT_EQ(dtype_refusal({{"model_init_kwargs", "{torch_dtype: int8}"}}),
            "model_init_kwargs: torch_dtype: 'int8' is not accepted; give one of auto, bfloat16, float16, "
            "float32, keep, or null");
  EXPECT_EQ(dtype_refusal({{"dtype", "float32"}, {"model_init_kwargs", "{dtype: bfloat16}"}}),
            "model_init_kwargs: dtype: 'bfloat16' contradicts dtype: 'float32': give one of them");
  EXPECT_EQ(dtype_refusal({{"stochastic_rounding", "true"}, {"model_init_kwargs", "{dtype: float32}"}})
                .substr(0, 26),
            "stochastic_rounding: true ");
}

}  // namespace
}  // namespace trl::config
