// Sizes: what parse_size_to_int of huggingface_hub 1.x makes of the same text, and what is refused.
#include "config/sizes_and_paths.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "config/training_arguments.h"

namespace trl::config {
namespace {

int64_t size_of(const std::string& text) {
  Config config;
  config.set("max_shard_size", text);
  return training_arguments(config).max_shard_bytes;
}

TEST(ByteSize, AsTransformersHasIt) {
  EXPECT_EQ(training_arguments(Config()).max_shard_bytes, 50'000'000'000);
  EXPECT_EQ(size_of("5GB"), 5'000'000'000);
  EXPECT_EQ(size_of("5gb"), 5'000'000'000);
  EXPECT_EQ(size_of(" 1.5 MB "), 1'500'000);
  EXPECT_EQ(size_of("2TB"), 2'000'000'000'000);
  EXPECT_EQ(size_of("0.0015KB"), 1);
  EXPECT_EQ(size_of("1e2kB"), 100'000);
  EXPECT_EQ(size_of("123456"), 123'456);
}

TEST(ByteSize, RefusesWhatIsNone) {
  for (const char* text : {"", "GB", "5G", "5GiB", "0", "0GB", "0.0005KB", "-1GB", "-7", "nanGB", "infGB",
                           "1e30TB", "99999999999999999999", "1,5GB", "5 GB of it"}) {
    try {
      size_of(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::invalid_config) << text;
      EXPECT_EQ(error.key(), "max_shard_size") << text;
      EXPECT_NE(error.message().find("as in 5GB"), std::string::npos) << error.message();
    }
  }
}

TEST(MemorySize, HasPowersOf1024Too) {
  const auto of = [](const std::string& text) {
    Config config;
    config.set("memory_budget", text);
    return memory_size(config, "memory_budget");
  };
  EXPECT_EQ(of("6GiB"), int64_t{6} << 30);
  EXPECT_EQ(of("1.5 mib"), 3 << 19);
  EXPECT_EQ(of("6GB"), 6'000'000'000);
  EXPECT_EQ(of("2TiB"), int64_t{2} << 40);
  EXPECT_EQ(of("123456"), 123'456);
  for (const char* text : {"six", "GiB", "0GiB", "-1GiB", "6G", "6Gi"}) EXPECT_THROW(of(text), Error) << text;
}

TEST(MemorySize, EveryIntegerInBytesTakesUnits) {
  for (const Option& option : options()) {
    if (option.type != OptionType::integer || option.doc.find("ytes ") == std::string_view::npos) continue;
    EXPECT_TRUE(option.accepted.starts_with(kBytes)) << option.name;
  }
  for (const char* key :
       {"runtime.host_memory_limit", "dataset_cache_limit", "activation_offloading_min_bytes"}) {
    Config config;
    for (const auto& [text, bytes] : std::vector<std::pair<const char*, int64_t>>{{"6GiB", int64_t{6} << 30},
                                                                                  {"1.5 gb", 1'500'000'000},
                                                                                  {"2048", 2048},
                                                                                  {"1e9", 1'000'000'000},
                                                                                  {"1_000", 1000},
                                                                                  {"0", 0}}) {
      config.set(key, text);
      EXPECT_EQ(config.get(key), std::to_string(bytes)) << key;
      EXPECT_EQ(config.get_int(key), bytes) << key;
    }
    for (const char* text : {"6G", "GiB", "-1GB", "-1", "1.5", "six", "1e30TB"}) {
      try {
        config.set(key, text);
        ADD_FAILURE() << key << " " << text;
      } catch (const Error& error) {
        EXPECT_EQ(error.key(), key);
        EXPECT_NE(error.message().find("bytes >= 0, or a number with GiB"), std::string::npos)
            << error.message();
      }
    }
  }
}

}  // namespace
}  // namespace trl::config
