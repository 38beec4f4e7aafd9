// Sizes: what parse_size_to_int of huggingface_hub 1.x makes of the same text, and what is refused.
#include "config/byte_size.h"

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

}  // namespace
}  // namespace trl::config
