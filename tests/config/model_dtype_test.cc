#include "config/model_options.h"

#include <gtest/gtest.h>

#include "config/settings.h"
#include "config/training_arguments.h"

namespace trl::config {
namespace {

std::string dtype_refusal(const Settings& settings) {
  return refusal_of([&] { training_arguments(config_with(settings)); });
}

TEST(ModelDtype, AnEntryOfModelInitKwargsIsTheKey) {
  EXPECT_EQ(model_dtype(Config()), "float32");
  EXPECT_EQ(model_dtype(config_with({{"dtype", "bfloat16"}})), "bfloat16");
  for (const char* value : {"auto", "float32", "bfloat16"}) {
    for (const char* key : {"dtype", "torch_dtype"}) {
      const std::string entry = fmt::format("{{{}: {}}}", key, value);
      EXPECT_EQ(model_dtype(config_with({{"model_init_kwargs", entry}})), value);
      EXPECT_EQ(model_dtype(config_with({{"dtype", value}, {"model_init_kwargs", entry}})), value);
    }
  }
  EXPECT_EQ(model_dtype(config_with({{"model_init_kwargs", "{dtype: null}"}})), "auto");
}

TEST(ModelDtype, RefusesWhatTheKeyRefuses) {
  EXPECT_EQ(dtype_refusal({{"model_init_kwargs", "{dtype: float16}"}}),
            "model_init_kwargs: dtype: 'float16' is refused: float16 weights are not in this build: give "
            "float32, bfloat16 or auto");
  for (const char* key : {"model_init_kwargs", "teacher_model_init_kwargs"}) {
    Config config;
    config.set("method", "gkd");
    try {
      config.set(key, "{dtype: float99}");
      ADD_FAILURE() << key;
    } catch (const Error& error) {
      EXPECT_EQ(error.key(), key);
    }
    EXPECT_FALSE(config.is_set(key));
  }
  EXPECT_EQ(dtype_refusal({{"model_init_kwargs", "{torch_dtype: int8}"}}),
            "model_init_kwargs: torch_dtype: 'int8' is not accepted; give one of auto, bfloat16, "
            "float32, keep, or null");
  EXPECT_EQ(dtype_refusal({{"dtype", "float32"}, {"model_init_kwargs", "{dtype: bfloat16}"}}),
            "model_init_kwargs: dtype: 'bfloat16' contradicts dtype: 'float32': give one of them");
  EXPECT_EQ(dtype_refusal({{"stochastic_rounding", "true"}, {"model_init_kwargs", "{dtype: float32}"}})
                .substr(0, 26),
            "stochastic_rounding: true ");
}

}  // namespace
}  // namespace trl::config
