// attn_implementation as text and as what a run asks for.
#include "config/model_options.h"

#include <gtest/gtest.h>

#include "base/files/files.h"
#include "config/settings.h"
#include "config/training_arguments.h"

namespace trl::config {
namespace {

AttentionArguments attention_asked(const Settings& settings) {
  return training_arguments(config_with(settings)).attention;
}

std::pair<Status, std::string> attention_refusal(const Settings& settings) {
  return test::error_of([&] { attention_asked(settings); });
}

constexpr std::string_view kAttentionNames =
    "; give one of eager, sdpa, flash_attention_2, flash_attention_3, flash_attention_4, flex_attention, "
    "kernels-community/flash-attn2, kernels-community/flash-attn3, kernels-community/vllm-flash-attn3, "
    "kernels-community/paged-attention, plugin:PATH, or null";

TEST(Attention, names_of_transformers_are_the_built_in_one) {
  EXPECT_EQ(attention_asked({}).name, "");
  for (const char* name : {"eager", "sdpa", "flash_attention_2", "flash_attention_3", "flash_attention_4",
                           "flex_attention", "kernels-community/flash-attn2", "kernels-community/flash-attn3",
                           "kernels-community/vllm-flash-attn3", "kernels-community/paged-attention"}) {
    for (const AttentionArguments& attention :
         {attention_asked({{"attn_implementation", name}}),
          attention_asked({{"model_init_kwargs", "{attn_implementation: " + std::string(name) + "}"}})}) {
      EXPECT_EQ(attention.name, name);
      EXPECT_EQ(attention.plugin, "");
    }
  }
  EXPECT_EQ(attention_asked({{"model_init_kwargs", "{attn_implementation: null}"}}).name, "");
}

TEST(Attention, a_plugin_is_a_file_that_is_there) {
  const std::string file = TRL_SOURCE_DIR "/README.md";
  const AttentionArguments attention = attention_asked({{"attn_implementation", "plugin:" + file}});
  EXPECT_EQ(attention.name, "plugin:" + file);
  EXPECT_EQ(attention.plugin, file);
  const auto gone = attention_refusal({{"attn_implementation", "plugin:/nowhere/kernel.so"}});
  EXPECT_EQ(gone.first, Status::not_found);
  EXPECT_EQ(
      gone.second,
      "attn_implementation: '/nowhere/kernel.so' does not exist; give the path of a shared library, or sdpa "
      "for the built-in attention");
  EXPECT_EQ(attention_refusal({{"attn_implementation", "plugin:/tmp"}}).second,
            "attn_implementation: '/tmp' is a directory; give the path of a shared library");
  EXPECT_EQ(attention_refusal({{"attn_implementation", "plugin:"}}).second,
            "attn_implementation: 'plugin:' does not name a file; give the path of a shared library: "
            "plugin:/path/lib.so");
}

TEST(Attention, other_names_are_refused_with_the_nearest_that_works) {
  const auto said = [&](const std::string& name, const std::string& why, const std::string& near) {
    const auto [status, message] = attention_refusal({{"attn_implementation", name}});
    EXPECT_EQ(status, Status::invalid_config);
    EXPECT_EQ(message, "attn_implementation: '" + name + "' is refused: " + why +
                           "; the nearest that works is '" + near + "'" + std::string(kAttentionNames));
  };
  const std::string none = "this build has no attention of that name";
  const std::string hub = "no kernel is fetched from a hub";
  said("flash-attention-2", none, "flash_attention_2");
  said("flash_attention_5", none, "flash_attention_2");
  said("flex_atention", none, "flex_attention");
  said("SDPA", none, "sdpa");
  said("flash_attn_2", none, "flash_attention_2");
  said("Flash", none, "flash_attention_2");
  said("EAGER", none, "eager");
  said("Plugin:./kernel.so", "plugin: is written in lower case", "plugin:./kernel.so");
  said("./kernel.so", "a file needs plugin: before its name", "plugin:./kernel.so");
  said("kernels-community/flash-attn4", hub, "kernels-community/flash-attn2");
  said("someone/my-kernel", hub, "sdpa");
  const auto [status, message] = attention_refusal({{"model_init_kwargs", "{attn_implementation: sdpaa}"}});
  EXPECT_EQ(status, Status::invalid_config);
  EXPECT_EQ(message, "model_init_kwargs: 'sdpaa' is refused: " + none + "; the nearest that works is 'sdpa'" +
                         std::string(kAttentionNames));
}

TEST(Attention, one_key_by_two_ways) {
  EXPECT_EQ(attention_asked(
                {{"attn_implementation", "eager"}, {"model_init_kwargs", "{attn_implementation: eager}"}})
                .name,
            "eager");
  EXPECT_EQ(
      attention_refusal(
          {{"attn_implementation", "eager"}, {"model_init_kwargs", "{attn_implementation: sdpa}"}})
          .second,
      "model_init_kwargs: attn_implementation: 'sdpa' contradicts attn_implementation: 'eager': give one of "
      "them");
}

TEST(Attention, a_plugin_is_no_plain_path) {
  const auto [status, message] = attention_refusal(
      {{"attn_implementation", "plugin:" TRL_SOURCE_DIR "/README.md"}, {"fused_kernels", "off"}});
  EXPECT_EQ(status, Status::invalid_config);
  EXPECT_NE(message.find("contradicts fused_kernels: off"), std::string::npos) << message;
}

}  // namespace
}  // namespace trl::config
