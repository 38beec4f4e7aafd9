// trl_runtime_*: log, memory limit, threads, lifetimes.
#include "host.h"

namespace {

using host::Error;

struct Log {
  std::vector<std::string> lines;
  int destroyed = 0;
  static void line(void* self, int32_t level, const char* component, const char* text, size_t size) {
    EXPECT_EQ(std::string(text).size(), size);
    static_cast<Log*>(self)->lines.push_back(std::to_string(level) + " " + component + ": " + text);
  }
  static void destroy(void* self) { ++static_cast<Log*>(self)->destroyed; }
};

TEST(Runtime, LogCallbackIsDestroyedExactlyOnce) {
  Log first, second;
  auto runtime = host::runtime();
  ASSERT_EQ(trl_runtime_set_log(runtime.get(), Log::line, &first, Log::destroy, nullptr), TRL_OK);
  EXPECT_EQ(first.destroyed, 0);
  ASSERT_EQ(trl_runtime_set_log(runtime.get(), Log::line, &second, Log::destroy, nullptr), TRL_OK);
  EXPECT_EQ(first.destroyed, 1);
  runtime.reset();
  EXPECT_EQ(first.destroyed, 1);
  EXPECT_EQ(second.destroyed, 1);
}

TEST(Runtime, DestroyRunsWhenTheRegistrationFails) {
  Log log;
  EXPECT_EQ(trl_runtime_set_log(nullptr, Log::line, &log, Log::destroy, nullptr), TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(log.destroyed, 1);
}

TEST(Runtime, UsersKeepItAlive) {
  Log log;
  auto runtime = host::runtime();
  ASSERT_EQ(trl_runtime_set_log(runtime.get(), Log::line, &log, Log::destroy, nullptr), TRL_OK);
  trl_dataset* dataset = nullptr;
  const std::string row = "{\"text\": \"a\"}\n";
  ASSERT_EQ(
      trl_dataset_from_buffer(runtime.get(), "jsonl", row.data(), row.size(), nullptr, &dataset, nullptr),
      TRL_OK);
  runtime.reset();
  EXPECT_EQ(log.destroyed, 0);
  int64_t count = 0;
  EXPECT_EQ(trl_dataset_get_row_count(dataset, &count, nullptr), TRL_OK);
  EXPECT_EQ(count, 1);
  trl_dataset_destroy(dataset);
  EXPECT_EQ(log.destroyed, 1);
}

TEST(Runtime, TheLimitBelongsToTheProcess) {
  auto first = host::runtime({{"runtime.host_memory_limit", "1000000"}});
  Error error;
  trl_runtime* second = nullptr;
  const auto other = host::config({{"runtime.host_memory_limit", "2000000"}});
  EXPECT_EQ(trl_runtime_create(other.get(), &second, error), TRL_E_BUSY);
  EXPECT_TRUE(error.names("1000000")) << error.message();
  EXPECT_EQ(error.key(), "runtime.host_memory_limit");
  EXPECT_EQ(second, nullptr);
  auto same = host::runtime({{"runtime.host_memory_limit", "1000000"}});
  auto indifferent = host::runtime();
  EXPECT_EQ(trl_runtime_set_memory_limit(indifferent.get(), 2000000, error), TRL_OK) << error.message();
  EXPECT_EQ(trl_runtime_create(other.get(), &second, error), TRL_OK) << error.message();
  trl_runtime_destroy(second);
  first.reset();
  same.reset();
  indifferent.reset();
  second = nullptr;
  const auto third = host::config({{"runtime.host_memory_limit", "3000000"}});
  EXPECT_EQ(trl_runtime_create(third.get(), &second, error), TRL_OK) << error.message();
  trl_runtime_destroy(second);
}

TEST(Runtime, ALimitIsNeitherChangedNorBelowWhatIsInUse) {
  Error error;
  trl_runtime* second = nullptr;
  const auto limited = host::config({{"runtime.host_memory_limit", "1"}});
  {
    const auto unlimited = host::runtime();
    EXPECT_EQ(trl_runtime_create(limited.get(), &second, error), TRL_E_BUSY);
  }
  EXPECT_EQ(trl_runtime_create(limited.get(), &second, error), TRL_OK) << error.message();
  trl_runtime_destroy(second);
}

TEST(Runtime, ThreadsBelongToTheProcess) {
  const auto first = host::runtime({{"runtime.threads", "1"}});
  Error error;
  trl_runtime* second = nullptr;
  EXPECT_EQ(trl_runtime_create(host::config({{"runtime.threads", "2"}}).get(), &second, error), TRL_E_BUSY);
  EXPECT_EQ(error.key(), "runtime.threads");
}

TEST(Runtime, WhoAsksForNoThreadsKeepsThoseThereAre) {
  const auto first = host::runtime();
  Error error;
  trl_runtime* second = nullptr;
  EXPECT_EQ(trl_runtime_create(host::config({{"runtime.threads", "333"}}).get(), &second, error), TRL_E_BUSY);
  EXPECT_EQ(error.key(), "runtime.threads");
  EXPECT_EQ(second, nullptr);
}

TEST(Runtime, MemoryIsCountedAndLimited) {
  const auto runtime = host::runtime();
  const std::string bytes(1 << 20, ' ');
  int64_t before = -1, held = -1, peak = -1;
  ASSERT_EQ(trl_runtime_memory(runtime.get(), "data", &before, nullptr, nullptr), TRL_OK);
  trl_dataset* dataset = nullptr;
  ASSERT_EQ(
      trl_dataset_from_buffer(runtime.get(), "jsonl", bytes.data(), bytes.size(), nullptr, &dataset, nullptr),
      TRL_OK);
  ASSERT_EQ(trl_runtime_memory(runtime.get(), "data", &held, &peak, nullptr), TRL_OK);
  EXPECT_EQ(held - before, 1 << 20);
  EXPECT_GE(peak, held);
  ASSERT_EQ(trl_runtime_memory(runtime.get(), nullptr, &held, &peak, nullptr), TRL_OK);
  EXPECT_GE(held, 1 << 20);

  Error error;
  EXPECT_EQ(trl_runtime_set_memory_limit(runtime.get(), held - 1, error), TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(trl_runtime_set_memory_limit(runtime.get(), -1, error), TRL_E_INVALID_ARGUMENT);
  ASSERT_EQ(trl_runtime_set_memory_limit(runtime.get(), held + 1000, error), TRL_OK);
  trl_dataset* refused = nullptr;
  EXPECT_EQ(
      trl_dataset_from_buffer(runtime.get(), "jsonl", bytes.data(), bytes.size(), nullptr, &refused, error),
      TRL_E_OUT_OF_MEMORY);
  EXPECT_EQ(refused, nullptr);
  EXPECT_TRUE(error.names(std::to_string(held + 1000))) << error.message();
  ASSERT_EQ(trl_runtime_set_memory_limit(runtime.get(), 0, error), TRL_OK);
  EXPECT_EQ(
      trl_dataset_from_buffer(runtime.get(), "jsonl", bytes.data(), bytes.size(), nullptr, &refused, error),
      TRL_OK);
  trl_dataset_destroy(refused);
  trl_dataset_destroy(dataset);
  int64_t after = -1;
  ASSERT_EQ(trl_runtime_memory(runtime.get(), "data", &after, nullptr, nullptr), TRL_OK);
  EXPECT_EQ(after, before);
  EXPECT_EQ(trl_runtime_memory(runtime.get(), "heap", &held, &peak, error), TRL_E_NOT_FOUND);
  EXPECT_TRUE(error.names("gradients")) << error.message();
}

}  // namespace
