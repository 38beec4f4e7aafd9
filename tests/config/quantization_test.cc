#include "config/model_options.h"

#include <gtest/gtest.h>

#include "config/settings.h"
#include "config/training_arguments.h"

namespace trl::config {
namespace {

TEST(Quantization, IsWhatTheFlagsOfTrlSay) {
  EXPECT_FALSE(quantization(Config()));
  const auto form = [](const Settings& settings) { return quantization(config_with(settings)); };
  EXPECT_EQ(form({{"load_in_8bit", "true"}}).form, WeightForm::int8);
  EXPECT_EQ(form({{"load_in_4bit", "true"}}).form, WeightForm::nf4);
  EXPECT_EQ(form({{"load_in_4bit", "true"}, {"bnb_4bit_quant_type", "fp4"}}).form, WeightForm::fp4);
  EXPECT_FALSE(form({{"load_in_4bit", "true"}}).nested);
  EXPECT_TRUE(form({{"load_in_4bit", "true"}, {"use_bnb_nested_quant", "true"}}).nested);
  EXPECT_FALSE(form({{"use_bnb_nested_quant", "true"}}));
}

TEST(Quantization, RefusesTwoForms) {
  const auto [status, message] = test::error_of([] {
    quantization(config_with({{"load_in_4bit", "true"}, {"load_in_8bit", "true"}}));
  });
  EXPECT_EQ(status, Status::invalid_config);
  EXPECT_EQ(message,
            "load_in_8bit: load_in_4bit is true as well: weights have one form, so give one of them");
}

TEST(Quantization, AllWeightsAreNotTrained) {
  for (const char* key : {"load_in_4bit", "load_in_8bit"}) {
    const auto [status, message] = test::error_of([&] { training_arguments(config_with({{key, "true"}})); });
    EXPECT_EQ(status, Status::invalid_config);
    EXPECT_EQ(message, std::string(key) +
                           ": true: quantised weights cannot be trained, only adapters on top of them; "
                           "give use_peft: true, or " +
                           key + ": false");
  }
}

}  // namespace
}  // namespace trl::config
